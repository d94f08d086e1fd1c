"""A CSV file of daily sales that depend on the price and on holidays.

python tests/examples/sales_file.py sales.csv
"""

import datetime
import sys
from pathlib import Path

import numpy as np

START = datetime.date(2021, 1, 1)


def write_sales(path, days, future, missing=(), seed=0):
    """Writes the file.

    Args:
        path: Path.
        days: Int, number of days with sales.
        future: Int, number of later days, whose price and holidays are planned.
        missing: List of ints, numbers of days without a row.
        seed: Int.
    """
    generator = np.random.default_rng(seed)
    number = days + future
    day = np.arange(number)
    is_cheap = generator.random(number) < 0.15
    is_holiday = generator.random(number) < 0.06
    week = np.array([1.0, 0.9, 0.95, 1.0, 1.2, 1.5, 0.6])[day % 7]
    price = np.where(is_cheap, 79.0, 99.0)
    noise = generator.normal(0, 6, number)
    sales = 100 * week * np.where(is_cheap, 1.8, 1) * np.where(is_holiday, 0.3, 1) + noise
    lines = ["date,sales,price,holiday"]
    for each in day.tolist():
        if each not in missing:
            value = f"{sales[each]:.1f}" if each < days else ""
            holiday = "1" if is_holiday[each] else ""
            lines.append(f"{START + datetime.timedelta(each)},{value},{price[each]:g},{holiday}")
    Path(path).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_sales(sys.argv[1], days=1000, future=14)
