"""How JSON lines and CSV become rows. Every line becomes a row or a dead letter, by one pass of Spark.

A file that cannot be text at all (undecodable CSV, a broken .gz) is rejected as a whole before Spark sees
it. Spark counts the malformed rows while it writes the good ones; only if there are some, a second pass
writes those.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import difflib
import gzip
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from rekindle.errors import DeclarationError, SourceError
from rekindle.sources.base import Batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

CORRUPT = "_rekindle_corrupt"
ROW = "_rekindle_row"
RAW = "_rekindle_raw"
FILE = "_rekindle_file"
REASON = "_rekindle_reason"
OURS = (CORRUPT, ROW, RAW, FILE, REASON)
FIELDS_MAX = 20_480
CHUNK = 1 << 22
COMPRESSED_BYTES_PER_ROW = 16.0
UNREADABLE = (".deflate", ".lz4", ".snappy", ".zst", ".zstd", ".zip", ".xz")

COMMON_OPTIONS = ("dateFormat", "lineSep", "locale", "timeZone", "timestampFormat", "timestampNTZFormat")
OPTIONS = {
    "parquet": (),
    "json": (
        *COMMON_OPTIONS,
        "allowBackslashEscapingAnyCharacter",
        "allowComments",
        "allowNonNumericNumbers",
        "allowNumericLeadingZeros",
        "allowSingleQuotes",
        "allowUnquotedControlChars",
        "allowUnquotedFieldNames",
    ),
    "csv": (
        *COMMON_OPTIONS,
        "charToEscapeQuoteEscaping",
        "comment",
        "emptyValue",
        "encoding",
        "escape",
        "header",
        "ignoreLeadingWhiteSpace",
        "ignoreTrailingWhiteSpace",
        "multiLine",
        "nanValue",
        "negativeInf",
        "nullValue",
        "positiveInf",
        "quote",
        "sep",
    ),
}


def check_options(format: str, options: Mapping[str, Any]) -> dict[str, str]:
    """The options as Spark takes them; DeclarationError for one that is unknown or not the user's to set."""
    known = {name.lower(): name for name in OPTIONS[format]}
    checked = {}
    for name, value in options.items():
        if str(name).lower() not in known:
            near = difflib.get_close_matches(str(name), OPTIONS[format], 1)
            raise DeclarationError(
                f"{format} files have no option {name!r}",
                hint=f"did you mean {near[0]!r}?" if near else f"known: {', '.join(OPTIONS[format]) or 'none'}",
            )
        text = str(value).lower() if isinstance(value, bool) else str(value)
        checked[known[str(name).lower()]] = text
    try:
        codecs.lookup(checked.get("encoding", "utf-8"))
    except LookupError:
        raise DeclarationError(f"the encoding {checked['encoding']!r} is unknown") from None
    return checked


def nullable(schema: str | StructType) -> StructType:
    """The schema with every field nullable, since a text can leave out anything."""
    from pyspark.sql.types import StructType

    def loosen(node: Any) -> Any:
        if isinstance(node, list):
            return [loosen(n) for n in node]
        if isinstance(node, dict):
            return {k: k in LOOSE or loosen(v) for k, v in node.items()}
        return node

    given = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    return StructType.fromJson(loosen(given.jsonValue()))


LOOSE = ("nullable", "containsNull", "valueContainsNull")


def check_schema(schema: StructType, format: str) -> None:
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, VariantType

    for column in schema:
        if column.name.lower() in OURS:
            raise SourceError(f"the column name {column.name!r} belongs to Rekindle", hint="choose another name")
        nested = (ArrayType, MapType, StructType, VariantType, BinaryType)
        if format == "csv" and isinstance(column.dataType, nested):
            raise SourceError(
                f"the column {column.name!r} cannot be {column.dataType.simpleString()} in CSV files",
                hint="declare it as a string, and parse it in an operator",
            )
    if not len(schema):
        raise SourceError("a schema needs at least one column")


def bytes_per_row(path: Path) -> float:
    """An estimate from the first lines of one file."""
    if path.suffix in (".gz", ".bz2"):
        return COMPRESSED_BYTES_PER_ROW
    try:
        with open(path, "rb") as file:
            head = file.read(1 << 16)
    except FileNotFoundError:
        return 0.0
    return len(head) / (head.count(b"\n") or 1)


def bring(
    files: Sequence[tuple[str, Path, int]],
    folder: Path,
    format: str,
    schema: StructType,
    options: Mapping[str, str],
    batch: Batch,
) -> None:
    """Add the rows of text files, and reject what is not fit. Lines of one file keep their order; in
    which order Spark takes the files depends on nothing but their names and sizes."""
    paths = []
    for name, path, size in files:
        reason = _unreadable(path, schema, options, format) if size else ""
        if reason:
            batch.reject(origin=name, reason=reason)
        elif size:
            paths.append(str(path))
    if not paths:
        return

    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    parse = _json if format == "json" else _csv
    session = _session(batch.spark)
    parsed, good = parse(session, paths, schema, options, named=False)
    bad = Observation()
    # Observing rows copies them, and Spark does not prune what is copied: the lines themselves are left behind first.
    counted = parsed.select(*good, REASON).observe(bad, F.count_if(F.col(REASON).isNotNull()).alias("rows"))
    batch.add_frame(counted.filter(F.col(REASON).isNull()).drop(REASON))
    if bad.get["rows"]:
        parsed, _ = parse(session, paths, schema, options, named=True)
        rejected = parsed.filter(F.col(REASON).isNotNull())
        row = F.make_valid_utf8(RAW).alias("row")
        batch.reject_frame(rejected.select(_origin(folder).alias("origin"), F.col(REASON).alias("reason"), row))


def _json(
    spark: SparkSession, paths: list[str], schema: StructType, options: Mapping[str, str], *, named: bool
) -> tuple[DataFrame, list[Column]]:
    """Lines parsed inside an array inside an object: what follows the first object of a line, which Spark
    would otherwise drop, then makes the whole line malformed, or the array longer."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, StringType, StructType

    wrapped = StructType().add("rows", ArrayType(schema)).add(CORRUPT, StringType())
    reader = spark.read.option("__globPaths__", "false")
    if "lineSep" in options:
        reader = reader.option("lineSep", options["lineSep"])
    of_json = {k: v for k, v in options.items() if k != "lineSep"} | {"columnNameOfCorruptRecord": CORRUPT}
    lines = reader.text(paths).select("value", _file(named))
    blanks = F.lit(" \t\r\n\x00")
    is_plain = F.startswith("value", F.lit("{"))  # as nearly all are, and need no trimming
    lines = lines.filter(is_plain | (F.btrim("value", blanks) != ""))
    parsed = lines.select(
        F.col("value").alias(RAW),
        FILE,
        F.from_json(F.concat(F.lit('{"rows":['), "value", F.lit("]}")), wrapped, of_json).alias("parsed"),
    )
    first = F.get("parsed.rows", F.lit(0))
    reason = (
        F.when(~F.is_valid_utf8(RAW), "not UTF-8")
        .when(~(F.startswith(RAW, F.lit("{")) | F.startswith(F.ltrim(RAW, blanks), F.lit("{"))), "not a JSON object")
        .when(
            F.col(f"parsed.{CORRUPT}").isNotNull() | first.isNull(),
            "malformed JSON, or a value that does not fit its column",
        )
        .when(F.size("parsed.rows") != 1, "more than one JSON object on a line")
    )
    rows = parsed.select(RAW, FILE, reason.alias(REASON), first.alias(ROW))
    return rows, [F.col(ROW).getField(c.name).alias(c.name) for c in schema]


def _csv(
    spark: SparkSession, paths: list[str], schema: StructType, options: Mapping[str, str], *, named: bool
) -> tuple[DataFrame, list[Column]]:
    """Without column pruning, which would not notice a malformed field of a column that nobody asked for."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructType

    with_corrupt = StructType([*schema.fields]).add(CORRUPT, StringType())
    reader = spark.read.schema(with_corrupt).options(**options).option("__globPaths__", "false")
    reader = reader.options(mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT, columnPruning="false")
    reader = reader.option("maxColumns", str(FIELDS_MAX)).option("enforceSchema", "true")
    rows = reader.csv(paths)
    columns = [F.col(_quoted(c.name)) for c in schema]
    # The reason names columns because it must: Spark refuses a query of the corrupt column alone.
    empty = F.concat_ws(", ", *[F.when(c.isNull(), F.lit(f.name)) for c, f in zip(columns, schema, strict=True)])
    why = F.concat(F.lit("fields missing, too many, or not of their column's type; without a value: "), empty)
    corrupt = F.col(CORRUPT)
    reason = F.when(corrupt.isNotNull(), why)
    return rows.select(*columns, corrupt.alias(RAW), _file(named), reason.alias(REASON)), columns


def _file(named: bool) -> Column:
    """The file that a row is from. Spark makes it anew for every row, so it is asked for only if it is needed."""
    from pyspark.sql import functions as F

    return (F.col("_metadata.file_path") if named else F.lit("")).alias(FILE)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _origin(folder: Path) -> Column:
    """The file's name inside the folder. Spark has it percent-encoded, but leaves ``+`` as it is."""
    from pyspark.sql import functions as F

    path = F.url_decode(F.replace(F.col(FILE), F.lit("+"), F.lit("%2B")))
    prefix = str(folder).rstrip("/") + "/"
    return F.substr(path, F.instr(path, prefix) + F.lit(len(prefix)))


@lru_cache(maxsize=4)
def _session(spark: SparkSession) -> SparkSession:
    """A session of the same settings, but for those that decide the order in which lines come: with these it
    does not depend on how many cores there are."""
    session = spark.newSession()
    same = {k: v for k, v in spark.conf.getAll.items() if k.startswith("spark.sql.") and spark.conf.isModifiable(k)}
    for name, value in {
        **same,
        "spark.sql.files.minPartitionNum": "16",
        "spark.sql.files.maxPartitionBytes": str(64 << 20),
        "spark.sql.files.openCostInBytes": str(4 << 20),
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
    }.items():
        session.conf.set(name, value)
    return session


def _unreadable(path: Path, schema: StructType, options: Mapping[str, str], format: str) -> str:
    """Why Spark would fail on the file as a whole, or misread it; empty if it would not."""
    if ":" in path.name:
        return "Spark cannot open a file with ':' in its name"
    if path.suffix in UNREADABLE:
        return f"{path.suffix} files are not read; .gz and .bz2 are"
    try:
        with _opened(path) as file:
            if format == "csv":
                return _unreadable_csv(file, schema, options)
            if path.suffix in (".gz", ".bz2"):
                while file.read(CHUNK):
                    pass
    except (EOFError, zlib.error, gzip.BadGzipFile, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise SourceError(f"the claimed file {path.name!r} is gone", detail=str(path)) from error
        return f"cannot be decompressed: {error}"
    return ""


def _opened(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return cast(BinaryIO, bz2.open(path, "rb")) if path.suffix == ".bz2" else open(path, "rb")


def _unreadable_csv(file: BinaryIO, schema: StructType, options: Mapping[str, str]) -> str:
    encoding = options.get("encoding", "utf-8")
    decoder = codecs.getincrementaldecoder(encoding)()
    sep = options.get("sep", ",")
    wanted = [c.name for c in schema] if options.get("header") == "true" else None
    at, rest = 0, ""
    while True:
        chunk = file.read(CHUNK)
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            return f"not {encoding}: a byte near {at + error.start} cannot be decoded"
        if "\x00" in text:
            return "not text: it has zero bytes"
        at += len(chunk)
        rest += text
        if wanted is not None and ("\n" in rest or not chunk):
            found = _header(rest, options)
            if found is not None and [f.lower() for f in found] != [w.lower() for w in wanted]:
                return f"the header is {', '.join(found)[:200]}; the stream has {', '.join(wanted)[:200]}"
            wanted = None
        lines = rest.split("\n")
        if len(rest) > FIELDS_MAX and any(len(n) > FIELDS_MAX and n.count(sep) >= FIELDS_MAX for n in lines):
            return f"a line has more than {FIELDS_MAX} fields"
        if not chunk:
            return ""
        rest = lines[-1]


def _header(text: str, options: Mapping[str, str]) -> list[str] | None:
    """The fields of the first line that is one."""
    sep, comment = options.get("sep", ","), options.get("comment", "")
    for line in text.removeprefix("\ufeff").splitlines():
        if line.strip() and not (comment and line.startswith(comment)):
            if len(sep.encode()) > 1:
                return [f.strip() for f in line.split(sep)]
            quote = options.get("quote", '"') or None
            quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
            return [f.strip() for f in next(csv.reader([line], delimiter=sep, quotechar=quote, quoting=quoting))]
    return None
