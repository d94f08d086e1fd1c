"""Quality of a translation with a glossary that was extracted from aligned training data.

    python benchmarks/terminology.py words --data DIR --source en --target fr --out-dir WORDS
    eflomal-align -s WORDS/words.en -t WORDS/words.fr -m 3 -f WORDS/forward -r WORDS/reverse
    python benchmarks/terminology.py RUN --words WORDS --source en --target fr --name tatoeba-en-fr

The first command writes the training data as words. eflomal (https://github.com/robertostling/
eflomal), in an environment of its own, aligns them. The third command keeps the links of both
directions and selects frequent source words of at least four letters, except the most frequent
ones. The translations of a term are the target words with at least a tenth of its links, and
together have at least the share `--coverages` of them: a glossary usually contains terms that are
always translated in the same way. Then it
translates the test sentences of RUN (see `keras-attn train translation`) that contain a term,
with the glossary and without. A term is used if the translation contains one of its translations
as a word. A use is wrong if the reference contains none of them.

Writes `benchmarks/results/terminology-NAME.json`.
"""

import collections
import gzip
import itertools
import re
import sys
import tempfile
from pathlib import Path

from arguments import argument_parser, settings_of
from results_file import versions, write_results

from keras_attn.files import atomic_replace

WORD = re.compile(r"\w+|[^\w\s]")
LEAST_SHARE, MOST_TRANSLATIONS = 0.1, 6


def main():
    parser = argument_parser(__doc__, threads=1, seed=1)
    parser.add_argument("run_dir", help='run directory, or "words"')
    parser.add_argument("--data", type=Path, help="directory with train.SOURCE and train.TARGET")
    parser.add_argument("--out-dir", type=Path, help="directory for the words")
    parser.add_argument("--words", type=Path, help="directory with words and alignments")
    parser.add_argument("--source", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--name", help="name of the results file")
    parser.add_argument("--terms", type=int, default=200)
    parser.add_argument("--coverages", type=float, nargs="+", default=[0.0, 0.9])
    parser.add_argument("--most-frequent", type=int, default=150, help="source words left out")
    args = parser.parse_args()
    if args.run_dir == "words":
        write_words(args)
        return
    run_dir = Path(args.run_dir)
    data = run_dir / "data"
    sources, references = (
        Path(data, f"test.{kind}").read_text(encoding="utf-8").split("\n")[:-1]
        for kind in ("source", "target")
    )
    links, rows = count_links(args), []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.onnx")
        export(run_dir, file)
        for coverage in args.coverages:
            glossary = extract(args, sources, *links, coverage)
            for entry in glossary.entries[:10]:
                print(entry.term, *entry.translations, sep="\t")
            pairs = zip(sources, references, strict=True)
            pairs = [pair for pair in pairs if glossary.find(pair[0])]
            row = evaluate(file, pairs, glossary, args)
            rows.append({**row, "model": f"{args.name}, coverage {coverage:g}"})
            print(rows[-1])
    write_results(
        args.out / f"terminology-{args.name}.json",
        rows,
        versions("keras", "tensorflow", "onnxruntime", "sacrebleu"),
        args.seed,
        settings=settings_of(args),
    )


def write_words(args):
    args.out_dir.mkdir(parents=True, exist_ok=True)
    for kind in (args.source, args.target):
        path = args.data / f"train.{kind}"
        opened = open(path, encoding="utf-8") if path.exists() else gzip.open(f"{path}.gz", "rt")
        with opened as file, atomic_replace(args.out_dir / f"words.{kind}") as partial:
            lines = [f"{' '.join(WORD.findall(line))}\n" for line in file]
            partial.write_text("".join(lines), encoding="utf-8")


def count_links(args):
    """Returns the counts of source words, and those of the target words that each is linked to."""
    counts, links = collections.Counter(), collections.defaultdict(collections.Counter)
    for source, target, pairs in aligned(args):
        counts.update(map(str.lower, source))
        for place, other in pairs:
            links[source[place].lower()][target[other]] += 1
    return counts, links


def extract(args, sources, counts, links, coverage):
    """Returns a `Glossary` of the most frequent terms that the test sentences contain."""
    from keras_attn_runtime import Glossary, GlossaryEntry

    test_words = {word.lower() for line in sources for word in WORD.findall(line)}
    frequent = {word for word, _ in counts.most_common(args.most_frequent)}
    entries = []
    for word, _ in counts.most_common():
        total = sum(links[word].values())
        if len(word) < 4 or not word.isalpha() or word in frequent or word not in test_words:
            continue
        translations = [
            other
            for other, count in links[word].most_common(MOST_TRANSLATIONS)
            if count >= LEAST_SHARE * total and len(other) >= 3 and other.isalpha()
        ]
        covered = sum(links[word][other] for other in translations)
        if translations and covered >= coverage * total:
            entries.append(GlossaryEntry(word, tuple(translations)))
        if len(entries) == args.terms:
            break
    return Glossary(entries)


def aligned(args):
    """Yields the words of both sides and the links that both directions share."""
    names = f"words.{args.source}", f"words.{args.target}", "forward", "reverse"
    files = [open(args.words / name, encoding="utf-8") for name in names]
    for source, target, *directions in zip(*files, strict=True):
        forward, reverse = (set(line.split()) for line in directions)
        pairs = [tuple(map(int, link.split("-"))) for link in forward & reverse]
        yield source.split(), target.split(), pairs


def export(run_dir, file):
    from keras_attn.export import export_onnx
    from keras_attn.training import RunDirectory

    run = RunDirectory(run_dir)
    tokenizers = run.source_tokenizer, run.target_tokenizer
    export_onnx(run.load_model(), file, *tokenizers, accept_constraints=True)


def evaluate(file, pairs, glossary, args):
    import sacrebleu
    from keras_attn_runtime import Translator

    sources, references = zip(*pairs, strict=True)
    translator = Translator(file, num_threads=args.threads)
    phrases = [glossary.phrases(source) for source in sources]
    texts = {
        "without": translator(sources),
        "with": translator(sources, constraints=phrases),
    }
    row = {"sentences": len(sources), "terms": len(glossary)}
    in_reference = uses(references, phrases)
    row |= {"occurrences": len(in_reference), "in_references": sum(in_reference)}
    for side, results in texts.items():
        used = uses(results, phrases)
        bleu = sacrebleu.corpus_bleu(results, [references]).score
        wrong = [
            is_used and not is_right for is_used, is_right in zip(used, in_reference, strict=True)
        ]
        row |= {
            f"used_{side}_glossary": sum(used),
            f"wrong_{side}_glossary": sum(wrong),
            f"bleu_of_texts_{side}_glossary": round(bleu, 2),
        }
    return row


def uses(texts, phrases):
    """Returns whether each required phrase occurs in its text, in one list."""
    return [
        any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in alternatives)
        for text, alternatives in itertools.chain.from_iterable(
            ((text, each) for each in own) for text, own in zip(texts, phrases, strict=True)
        )
    ]


if __name__ == "__main__":
    sys.exit(main())
