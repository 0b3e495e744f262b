"""Options of the formats that Spark brings along. Spark passes over those that it does not know, without a word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tidelog.model.errors import did_you_mean
from tidelog.spark.pipeline.description.objects import TIDELOG, Scalar

FILES: Final = ("csv", "json", "parquet", "orc", "text", "xml")
"""Formats of files that Spark brings along."""
BUILT_IN: Final = (*FILES, TIDELOG, "rate", "rate-micro-batch", "socket", "jdbc", "console", "noop", "memory")


def _names(*texts: str) -> frozenset[str]:
    return frozenset(name for text in texts for name in text.split())


_TIMES: Final = "dateFormat timeFormat timestampFormat timestampNTZFormat timeZone locale"
_TEXTS: Final = f"{_TIMES} charset encoding compression columnNameOfCorruptRecord mode multiLine samplingRatio"
OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "csv": _names(
        _TEXTS,
        "charToEscapeQuoteEscaping codec columnPruning comment delimiter emptyValue enableDateTimeParsingFallback",
        "enforceSchema escape escapeQuotes extension header ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace",
        "inferSchema inputBufferSize lineSep maxCharsPerColumn maxColumns nanValue negativeInf nullValue positiveInf",
        "preferDate quote quoteAll sep singleVariantColumn unescapedQuoteHandling",
    ),
    "json": _names(
        _TEXTS,
        "allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros",
        "allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames dropFieldIfAllNull",
        "enableDateTimeParsingFallback explodeEmbeddedArray ignoreNullFields inferTimestamp lineSep prefersDecimal",
        "pretty primitivesAsString singleVariantColumn sortKeys useUnsafeRow writeNonAsciiCharacterAsCodePoint",
    ),
    "xml": _names(
        _TEXTS,
        "arrayElementName attributePrefix declaration excludeAttribute ignoreNamespace ignoreSurroundingSpaces indent",
        "inferSchema nullValue preferDate prefersDecimal rootTag rowTag rowValidationXSDPath singleVariantColumn",
        "useLegacyXMLParser validateName valueTag wildcardColName",
    ),
    "parquet": _names("compression datetimeRebaseMode int96RebaseMode mergeSchema"),
    "orc": _names("compression mergeSchema"),
    "text": _names("compression encoding lineSep wholetext"),
    "rate": _names("rowsPerSecond rampUpTime numPartitions"),
    "rate-micro-batch": _names("rowsPerBatch numPartitions startTimestamp advanceMillisPerBatch"),
    "socket": _names("host port includeTimestamp"),
    "console": _names("numRows truncate"),
    "noop": _names(),
}
"""What each format takes itself; names with a dot are for Hadoop, and go through."""

FILE_READING: Final = _names(
    "basePath cleanSource discardCachedInputRatio fileNameOnly ignoreCorruptFiles ignoreInvalidPartitionPaths",
    "ignoreMissingFiles ignoredPathSegmentRegex latestFirst maxBytesPerTrigger maxCachedFiles maxFileAge",
    "maxFilesPerTrigger modifiedAfter modifiedBefore pathGlobFilter recursiveFileLookup sourceArchiveDir timeZone",
)
FILE_WRITING: Final = _names("maxRecordsPerFile partitionOverwriteMode retention")

_KEYS: Final[Mapping[str, str]] = {
    "path": "the key 'path'",
    "stream": "the key 'stream'",
    "time": "the key 'time'",
    "compact": "the key 'compaction'",
    "checkpointlocation": "the key 'checkpoint' of [pipeline]",
    "queryname": "the names of the pipeline and of the sink",
}


def unknown_options(format: str, options: Mapping[str, Scalar], *, reads: bool) -> Iterator[tuple[str, str]]:
    """Options that a format does not have, or that a key of the pipeline says, and why."""
    own = OPTIONS.get(format)
    known = (
        None if own is None else own | ((FILE_READING if reads else FILE_WRITING) if format in FILES else frozenset())
    )
    folded = {name.lower() for name in known or ()}
    for name in options:
        word = name.replace("_", "").lower() if format == TIDELOG else name.lower()
        if word in _KEYS and (format == TIDELOG or word not in ("stream", "time", "compact")):
            yield name, f"{name!r} is no option of a pipeline: {_KEYS[word]} says it"
        elif known is not None and "." not in name and word not in folded:
            what = "reading" if reads else "writing"
            hint = did_you_mean(name, sorted(known)) if known else "it has none"
            yield name, f"{what} {format} has no option {name!r}, and Spark would pass over it; {hint}"
