"""Generates sentence pairs of written dates and ISO dates, without a download.

    en: Mon, 3rd May '21            2021-05-03
    de: Montag, den 3. Mai 2021     2021-05-03
    fr: lun. 1er fév. 1999          1999-02-01
    es: 3 de mayo de 2021           2021-05-03

Every source has exactly one correct translation:

- The source starts with its language (`en`, `de`, `fr`, `es`).
- If a date consists only of numbers, the day comes before the month in every language (as in
  British English), unless the date begins with a four-digit year.
- All dates are from 1950-01-01 to 2049-12-31, so a two-digit year is unambiguous: 50 to 99 are 1950
  to 1999, and 00 to 49 are 2000 to 2049.
- A weekday always matches the date.

The splits have no dates in common: a date always belongs to the same split, independent of seed and
format.
"""

import datetime
import hashlib
import random
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

FIRST_DATE = datetime.date(1950, 1, 1)
LAST_DATE = datetime.date(2049, 12, 31)
Split: TypeAlias = Literal["train", "valid", "test"]
SPLITS = get_args(Split)


class Language(NamedTuple):
    """Words and formats of a language. The first weekday is Monday, the first month is January.

    A format is a template with the fields `{day}` (3), `{day02}` (03), `{ordinal}` (3rd), `{month}`
    (5), `{month02}` (05), `{month_name}` (May), `{month_short}`, `{weekday}` (Monday),
    `{weekday_short}`, `{year}` (2021) and `{year02}` (21).
    """

    weekdays: Sequence[str]
    short_weekdays: Sequence[str]
    months: Sequence[str]
    short_months: Sequence[str]
    ordinals: dict[int, str]  # exceptions from `ordinal_default`
    ordinal_default: str
    formats: Sequence[str]


LANGUAGES = {
    "en": Language(
        weekdays="Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
        short_weekdays="Mon Tue Wed Thu Fri Sat Sun".split(),
        months=(
            "January February March April May June July August September October November December"
        ).split(),
        short_months="Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec".split(),
        ordinals={1: "1st", 2: "2nd", 3: "3rd", 21: "21st", 22: "22nd", 23: "23rd", 31: "31st"},
        ordinal_default="{}th",
        formats=[
            "{day} {month_name} {year}",
            "{ordinal} {month_name} {year}",
            "the {ordinal} of {month_name} {year}",
            "the {ordinal} of {month_name}, {year}",
            "{month_name} {day}, {year}",
            "{month_name} {ordinal}, {year}",
            "{month_name} the {ordinal}, {year}",
            "{month_short} {day}, {year}",
            "{month_short} {day} '{year02}",
            "{day} {month_short} {year}",
            "{day} {month_short} '{year02}",
            "{day02}-{month_short}-{year}",
            "{day}-{month_short}-{year02}",
            "{weekday}, {day} {month_name} {year}",
            "{weekday} the {ordinal} of {month_name} {year}",
            "{weekday}, {month_name} {day}, {year}",
            "{weekday_short}, {day} {month_short} {year}",
            "{weekday_short} {ordinal} {month_name} '{year02}",
            "{day02}/{month02}/{year}",
            "{day}/{month}/{year}",
            "{day}/{month}/{year02}",
            "{day}.{month}.{year02}",
            "{day02}-{month02}-{year}",
            "{year}-{month02}-{day02}",
            "{year}/{month02}/{day02}",
        ],
    ),
    "de": Language(
        weekdays="Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag".split(),
        short_weekdays="Mo Di Mi Do Fr Sa So".split(),
        months=(
            "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
        ).split(),
        short_months="Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez.".split(),
        ordinals={},
        ordinal_default="{}.",
        formats=[
            "{ordinal} {month_name} {year}",
            "{ordinal} {month_name} {year02}",
            "{ordinal} {month_name} '{year02}",
            "{ordinal}{month_name} {year}",
            "{ordinal} {month_short} {year}",
            "{ordinal} {month_short} '{year02}",
            "der {ordinal} {month_name} {year}",
            "am {ordinal} {month_name} {year}",
            "am {weekday}, dem {ordinal} {month_name} {year}",
            "{weekday}, {ordinal} {month_name} {year}",
            "{weekday}, den {ordinal} {month_name} {year}",
            "{weekday}, {day02}.{month02}.{year}",
            "{weekday_short}, {ordinal} {month_short} {year}",
            "{weekday_short}., {day02}.{month02}.{year}",
            "{weekday_short} {day}.{month}.{year02}",
            "{day02}.{month02}.{year}",
            "{day}.{month}.{year}",
            "{day}.{month}.{year02}",
            "{day}. {month}. {year}",
            "{day02}.{month02}.{year02}",
            "{day}/{month}/{year}",
            "{year}-{month02}-{day02}",
        ],
    ),
    "fr": Language(
        weekdays="lundi mardi mercredi jeudi vendredi samedi dimanche".split(),
        short_weekdays="lun. mar. mer. jeu. ven. sam. dim.".split(),
        months=(
            "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
        ).split(),
        short_months="janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.".split(),
        ordinals={1: "1er"},
        ordinal_default="{}",
        formats=[
            "{ordinal} {month_name} {year}",
            "{ordinal} {month_name} {year02}",
            "{ordinal} {month_short} {year}",
            "{ordinal} {month_short} {year02}",
            "{day02} {month_short} {year}",
            "le {ordinal} {month_name} {year}",
            "le {ordinal} {month_short} {year}",
            "le {day02}/{month02}/{year}",
            "{weekday} {ordinal} {month_name} {year}",
            "le {weekday} {ordinal} {month_name} {year}",
            "{weekday_short} {ordinal} {month_short} {year}",
            "{weekday_short} {day02}/{month02}/{year02}",
            "{day02}/{month02}/{year}",
            "{day}/{month}/{year}",
            "{day}/{month}/{year02}",
            "{day02}.{month02}.{year}",
            "{day02}-{month02}-{year}",
            "{year}-{month02}-{day02}",
        ],
    ),
    "es": Language(
        weekdays="lunes martes miércoles jueves viernes sábado domingo".split(),
        short_weekdays="lun mar mié jue vie sáb dom".split(),
        months=(
            "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre"
            " diciembre"
        ).split(),
        short_months="ene feb mar abr may jun jul ago sept oct nov dic".split(),
        ordinals={1: "1.º"},
        ordinal_default="{}",
        formats=[
            "{day} de {month_name} de {year}",
            "{ordinal} de {month_name} de {year}",
            "{day} de {month_name} del {year}",
            "{day} de {month_name} del {year02}",
            "{day} de {month_name}, {year}",
            "{day} {month_name} {year}",
            "{day} {month_short} {year}",
            "{day02}-{month_short}-{year}",
            "{day}-{month_short}-{year02}",
            "el {day} de {month_name} de {year}",
            "{weekday}, {day} de {month_name} de {year}",
            "{weekday} {day} de {month_name} del {year}",
            "el {weekday} {day} de {month_name} de {year}",
            "{weekday_short}, {day} {month_short} {year}",
            "{weekday_short} {day02}/{month02}/{year}",
            "{day02}/{month02}/{year}",
            "{day}/{month}/{year}",
            "{day}/{month}/{year02}",
            "{day}-{month}-{year}",
            "{day02}.{month02}.{year}",
            "{year}-{month02}-{day02}",
        ],
    ),
}


def split_of(date: datetime.date) -> Split:
    """Returns the split of a date: 80 % "train", 10 % "valid" and 10 % "test".

    The split depends on nothing but the date, so test dates never occur in the training data.
    """
    tenth = hashlib.sha256(date.isoformat().encode()).digest()[0] % 10
    return "test" if tenth == 0 else "valid" if tenth == 1 else "train"


def write_date(date: datetime.date, language: str, template: str) -> str:
    """Writes a date in a format, for example "Montag, 3. Mai 2021"."""
    words = LANGUAGES[language]
    return template.format(
        day=date.day,
        day02=f"{date.day:02}",
        ordinal=words.ordinals.get(date.day, words.ordinal_default.format(date.day)),
        month=date.month,
        month02=f"{date.month:02}",
        month_name=words.months[date.month - 1],
        month_short=words.short_months[date.month - 1],
        weekday=words.weekdays[date.weekday()],
        weekday_short=words.short_weekdays[date.weekday()],
        year=date.year,
        year02=f"{date.year % 100:02}",
    )


def type_carelessly(text: str, language: str, rng: random.Random) -> str:
    """Imitates careless typing: changes the case (20 %) and removes accents (10 %)."""
    case = rng.random()
    if case < 0.1:
        text = text.lower()
    elif case < 0.2:
        text = text.upper()
    if rng.random() < 0.1:
        if language == "de":
            return text.replace("ä", "ae").replace("Ä", "AE")
        letters = unicodedata.normalize("NFD", text)
        return "".join(letter for letter in letters if not unicodedata.combining(letter))
    return text


def generate_dates(
    count: int, seed: int = 0, split: Split = "train"
) -> tuple[list[str], list[str]]:
    """Generates sentence pairs of written dates in four languages and ISO dates.

    The pairs need no download, and a small model learns to translate them in a minute. Every source
    has exactly one correct translation. It begins with its language (English, German, French or
    Spanish), for example `"de: Montag, 3. Mai 2021"`. A tenth of the sources is in upper case, a
    tenth in lower case, and a tenth has no accents. The splits have no dates in common.

    Args:
        count: Int >= 0, number of pairs. Date, language and format are sampled for each pair, with
            replacement.
        seed: Int. The same seed results in the same pairs. With a larger `count`, the list starts
            with the same pairs. Defaults to `0`.
        split: String, `"train"` (80 % of the dates from 1950 to 2049), `"valid"` or `"test"` (10 %
            each). Defaults to `"train"`.

    Returns:
        Two lists of `count` strings: the sources and the targets, such as `"2021-05-03"`.

    Raises:
        ValueError: If `count` is negative, or `split` is unknown.

    Example:

    >>> from keras_attn.text import generate_dates
    >>> sources, targets = generate_dates(2)
    >>> sources
    ['es: 27/9/1985', 'de: am 20. februar 2011']
    >>> targets
    ['1985-09-27', '2011-02-20']
    """
    if count < 0:
        raise ValueError(f"Expected count to be at least 0. Received: count={count}.")
    if split not in SPLITS:
        raise ValueError(f"Expected split to be one of {SPLITS}. Received: split={split!r}.")
    rng = random.Random(f"{split} {seed}")
    days = (LAST_DATE - FIRST_DATE).days + 1
    dates = [FIRST_DATE + datetime.timedelta(day) for day in range(days)]
    dates = [date for date in dates if split_of(date) == split]
    sources, targets = [], []
    for _ in range(count):
        date = rng.choice(dates)
        language = rng.choice(list(LANGUAGES))
        written = write_date(date, language, rng.choice(LANGUAGES[language].formats))
        sources.append(f"{language}: {type_carelessly(written, language, rng)}")
        targets.append(date.isoformat())
    return sources, targets
