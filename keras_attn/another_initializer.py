def another_initializer(initializer):
    """One like it that draws other numbers, if it draws any.

    An initializer with a seed gives the same numbers each time. What is no `keras.initializers`
    object, such as a function, is returned as it is.
    """
    return initializer.clone() if hasattr(initializer, "clone") else initializer
