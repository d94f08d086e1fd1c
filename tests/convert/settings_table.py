"""Prints how many settings of each architecture are mapped, irrelevant and refused.

    python tests/convert/settings_table.py

The tests change them: mapped settings in the slow tests `test_a_varied_setting_...` and
`test_a_changed_...`, the others in `test_unmapped_settings.py`. An unknown setting is refused, so
none is ignored.
"""

from keras_attn.convert._architectures import ARCHITECTURES
from keras_attn.convert._encoder_models import ENCODERS
from keras_attn.convert._generation_settings import GENERATION

TREATMENTS = ("mapped", "irrelevant", "refused")


def main():
    print(f"| settings | {' | '.join(TREATMENTS)} | ignored |\n|---|---|---|---|---|")
    tables = {name: each.settings for name, each in {**ARCHITECTURES, **ENCODERS}.items()}
    for name, table in {**tables, "generation_config.json": GENERATION}.items():
        treatments = [each.treatment for each in table.values()]
        counts = [treatments.count(each) for each in TREATMENTS]
        assert sum(counts) == len(table)
        print(f"| {name} | {' | '.join(map(str, counts))} | 0 |")


if __name__ == "__main__":
    main()
