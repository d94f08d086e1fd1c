"""The dates are read back by a strict reader that was written apart from the generator."""

import datetime
import re
import unicodedata

import pytest

from keras_attn.text import _generated_dates as dates
from keras_attn.text import generate_dates

MONTHS = {
    "en": "january february march april may june july august september october november december",
    "de": "januar februar marz april mai juni juli august september oktober november dezember",
    "fr": "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
    "diciembre",
}
SHORT_MONTHS = {
    "en": "jan feb mar apr may jun jul aug sept oct nov dec",
    "de": "jan. feb. marz apr. mai juni juli aug. sept. okt. nov. dez.",
    "fr": "janv. fevr. mars avr. mai juin juil. aout sept. oct. nov. dec.",
    "es": "ene feb mar abr may jun jul ago sept oct nov dic",
}
WEEKDAYS = {
    "en": "monday tuesday wednesday thursday friday saturday sunday",
    "de": "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "es": "lunes martes miercoles jueves viernes sabado domingo",
}
SHORT_WEEKDAYS = {
    "en": "mon tue wed thu fri sat sun",
    "de": "mo di mi do fr sa so",
    "fr": "lun. mar. mer. jeu. ven. sam. dim.",
    "es": "lun mar mie jue vie sab dom",
}
# From the day or the month to the end; MONTH stands for any name of a month.
BODIES = {
    "en": [
        r"(?:the )?(?P<day>\d{1,2})(?P<suffix>st|nd|rd|th)? (?:of )?MONTH,? '?(?P<year>\d+)",
        r"MONTH (?:the )?(?P<day>\d{1,2})(?P<suffix>st|nd|rd|th)?(?:,| ')? ?(?P<year>\d+)",
        r"(?P<day>\d{1,2})-MONTH-(?P<year>\d+)",
    ],
    "de": [r"(?P<day>\d{1,2})\. ?MONTH '?(?P<year>\d+)"],
    "fr": [r"(?P<day>\d{1,2})(?P<suffix>er)? MONTH (?P<year>\d+)"],
    "es": [
        r"(?P<day>\d{1,2})(?P<suffix>\.º)? (?:de )?MONTH(?: de| del|,)? (?P<year>\d+)",
        r"(?P<day>\d{1,2})-MONTH-(?P<year>\d+)",
    ],
}
NUMERIC = [
    r"(?P<day>\d{1,2})(?P<mark>[./-])(?P<month>\d{1,2})(?P=mark)(?P<year>\d\d|\d{4})",
    r"(?P<day>\d{1,2})\. (?P<month>\d{1,2})\. (?P<year>\d{4})",
    r"(?P<year>\d{4})(?P<mark>[/-])(?P<month>\d\d)(?P=mark)(?P<day>\d\d)",
]
# Before the day; WEEKDAY stands for any name of a weekday.
PREFIXES = {
    "en": r"(?:WEEKDAY,? )?",
    "de": r"(?:der |am )?(?:WEEKDAY(?:,|\.,|, den|, dem)? )?",
    "fr": r"(?:le )?(?:WEEKDAY )?",
    "es": r"(?:el )?(?:WEEKDAY,? )?",
}


def read_date(source):
    """All the dates that a source can mean in its language: a set."""
    language, text = re.fullmatch("(en|de|fr|es): (.+)", source).groups()
    months = {**numbered(MONTHS[language]), **numbered(SHORT_MONTHS[language])}
    weekdays = {**numbered(WEEKDAYS[language]), **numbered(SHORT_WEEKDAYS[language])}
    readings = set()
    for body in BODIES[language] + NUMERIC:
        pattern = PREFIXES[language].replace("WEEKDAY", any_of("weekday", weekdays))
        pattern += body.replace("MONTH", any_of("month", months))
        match = re.fullmatch(pattern, plain(text, language))
        if match is None:
            continue
        parts = match.groupdict()
        year, day = int(parts["year"]), int(parts["day"])
        assert len(parts["year"]) in (2, 4)
        if len(parts["year"]) == 2:
            year += 1900 if year >= 50 else 2000
        date = datetime.date(year, months.get(parts["month"]) or int(parts["month"]), day)
        if parts["weekday"] is not None:
            assert weekdays[parts["weekday"]] == date.isoweekday(), source
        check_suffix(parts.get("suffix"), day, language)
        readings.add(date)
    return readings


def numbered(names):
    """The names with their numbers, from 1."""
    return {name: number for number, name in enumerate(names.split(), start=1)}


def any_of(group, names):
    return f"(?P<{group}>{'|'.join(map(re.escape, names))})"


def plain(text, language):
    """Small letters without accents."""
    text = text.lower()
    if language == "de":
        text = text.replace("maerz", "marz")
    letters = unicodedata.normalize("NFD", text)
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def check_suffix(suffix, day, language):
    if suffix is None:
        return
    if language == "en":
        last = 0 if day in (11, 12, 13) else day % 10
        assert suffix == {1: "st", 2: "nd", 3: "rd"}.get(last, "th")
    else:
        assert day == 1 and suffix == {"fr": "er", "es": ".º"}[language]


@pytest.fixture(scope="module")
def sample():
    """20,000 pairs of each split."""
    return {split: generate_dates(20000, seed=7, split=split) for split in dates.SPLITS}


def test_the_reader_knows_right_from_wrong():
    assert read_date("en: Mon, 3rd May '21") == {datetime.date(2021, 5, 3)}
    assert read_date("fr: 3/4/49") == {datetime.date(2049, 4, 3)}
    assert read_date("de: 3.4.50") == {datetime.date(1950, 4, 3)}
    assert read_date("de: 3 May 2021") == set()
    assert read_date("en: 3 May 021x") == set()
    with pytest.raises(AssertionError):
        read_date("en: Tue, 3 May 2021")
    with pytest.raises(AssertionError):
        read_date("en: 3st May 2021")


def test_each_source_has_one_reading_and_it_is_the_target(sample):
    for sources, targets in sample.values():
        for source, target in list(zip(sources, targets, strict=True))[:4000]:
            assert {date.isoformat() for date in read_date(source)} == {target}, source


def test_every_format_of_every_language_means_its_date():
    for language, words in dates.LANGUAGES.items():
        for template in words.formats:
            for month in range(1, 13):
                for day in (1, 2, 3, 11, 12, 13, 21, 22, 23, 28):
                    date = datetime.date(1948 + 8 * month, month, day)
                    source = f"{language}: {dates.write_date(date, language, template)}"
                    assert read_date(source) == {date}, source


def test_no_source_has_two_targets(sample):
    """Compared as a case-blind reader sees them, in all splits together."""
    meaning = {}
    for sources, targets in sample.values():
        for source, target in zip(sources, targets, strict=True):
            assert meaning.setdefault(source.lower(), target) == target
    assert len(meaning) > 50000


def test_there_are_enough_languages_and_formats():
    """Counted in what is written: the first of a month with a long name."""
    date = datetime.date(2021, 9, 1)
    assert len(dates.LANGUAGES) >= 3
    for language, words in dates.LANGUAGES.items():
        written = {dates.write_date(date, language, template) for template in words.formats}
        assert len(written) == len(words.formats) >= 12


def test_languages_two_digit_years_and_careless_typing_occur(sample):
    sources, _ = sample["train"]
    for language in dates.LANGUAGES:
        own = [source for source in sources if source.startswith(f"{language}: ")]
        assert len(own) > 4000
        two_digits = [source for source in own if not re.search(r"\d{4}", source)]
        assert len(two_digits) > len(own) / 10
    assert any(source[4:].islower() for source in sources)
    assert any(source[4:].isupper() for source in sources)
    assert any("fevrier" in source.lower() for source in sources)
    assert any("février" in source.lower() for source in sources)
    assert any("maerz" in source.lower() for source in sources)


def test_two_digit_years_follow_the_window(sample):
    sources, targets = sample["train"]
    years = {}
    for source, target in zip(sources, targets, strict=True):
        match = re.search(r"(?<!\d)\d{1,2}/\d{1,2}/(\d\d)$", source)
        if match:
            years.setdefault(int(match[1]), set()).add(int(target[:4]))
    assert years == {year: {1900 + year if year >= 50 else 2000 + year} for year in range(100)}


def test_no_date_is_in_two_splits(sample):
    seen = {split: set(targets) for split, (_, targets) in sample.items()}
    for seed in (1, 2):  # whatever the seed
        for split in dates.SPLITS:
            seen[split] |= set(generate_dates(20000, seed, split)[1])
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["valid"]
    assert not seen["valid"] & seen["test"]
    for split, targets in seen.items():
        assert {dates.split_of(datetime.date.fromisoformat(target)) for target in targets} == {
            split
        }


def test_the_splits_cover_all_days_of_a_hundred_years():
    days = [dates.FIRST_DATE + datetime.timedelta(day) for day in range(36525)]
    assert days[0] == datetime.date(1950, 1, 1)
    assert days[-1] == dates.LAST_DATE == datetime.date(2049, 12, 31)
    splits = [dates.split_of(day) for day in days]
    assert 0.75 < splits.count("train") / len(days) < 0.85
    assert min(splits.count("valid"), splits.count("test")) > 3000


def test_the_same_seed_gives_the_same_pairs():
    assert generate_dates(500, 3, "test") == generate_dates(500, 3, "test")
    assert generate_dates(500, 3, "test")[0] == generate_dates(900, 3, "test")[0][:500]
    assert generate_dates(500, 3, "test") != generate_dates(500, 4, "test")
    # The very text, so that a change of Python or of this file that alters the data is noticed.
    assert generate_dates(2, 0, "train") == (
        ["es: 27/9/1985", "de: am 20. februar 2011"],
        ["1985-09-27", "2011-02-20"],
    )


def test_nothing_can_be_asked_for():
    assert generate_dates(0) == ([], [])


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="Received: count=-1"):
        generate_dates(-1)
    with pytest.raises(ValueError, match="'train'.*Received: split='dev'"):
        generate_dates(1, split="dev")
