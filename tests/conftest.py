def pytest_ignore_collect(collection_path):
    """Of tests/, only test_*.py is imported: the modules and scripts beside them are for the tests.

    Otherwise `--doctest-modules`, which is meant for keras_attn, would import each of them.
    """
    helper = collection_path.suffix == ".py" and not collection_path.name.startswith("test_")
    return True if helper else None
