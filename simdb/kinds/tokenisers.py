"""Tokenisers of one's own: functions of a text, known by a name and a version.

A store keeps both, and not the function: the program that opens a collection must have registered
the same one, or a package that is installed brings it as an entry point of the group
``simdb.tokenisers``, whose module registers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Annotated, Any, TypeAlias, TypeVar

from msgspec import Meta

from simdb import kernels, late
from simdb.arguments import short
from simdb.errors import BadItemError, ConfigurationError, UnknownTokeniserError, WrongTypeError
from simdb.kinds.base import Settings, joined, loaded, shown
from simdb.kinds.sets import ElementForm, element_keys, require_found
from simdb.lsh.family import SymbolSets, secret_words

ENTRY_POINTS = "simdb.tokenisers"

Tokeniser: TypeAlias = Callable[[str], Iterable[str]]
T = TypeVar("T", bound=Tokeniser)
Named: TypeAlias = Annotated[str, Meta(min_length=1, max_length=100)]

DEEPEST = 4  # functions within each other that are looked at
MOST_KEPT = 2**26  # bytes of texts, and of their tokens, whose symbols were not asked for yet

_FORM = ElementForm("text's set of tokens")
_TOKENISERS: dict[tuple[str, str], Tokeniser] = {}


def tokeniser(name: str, version: str = "1") -> Callable[[T], T]:
    """Register a function of a text, which returns its tokens, under a name and a version.

    It must return the same tokens for the same text, in every process, and be safe to call from
    several threads: a change of it is another version. Order and repeats of tokens do not count.

    Raises:
        ConfigurationError: another function has that name and version, or these are no texts.
        WrongTypeError: it is no function.
    """
    Tokens(name, version)  # which refuses what no collection can name

    def register(function: T) -> T:
        if not callable(function):
            raise WrongTypeError(
                f"a tokeniser must be a function that takes a text, not {shown(function)}"
            )
        taken = _TOKENISERS.get((name, version))
        if taken is not None and not _is_again(function, taken):
            raise ConfigurationError(
                f"the tokeniser {name!r}, version {version!r}, is already {_place_of(taken)}: give "
                "another version"
            )
        _TOKENISERS[name, version] = function  # a module that is loaded again brings it anew
        return function

    return register


def _is_again(function: Tokeniser, taken: Tokeniser) -> bool:
    """Whether a function is one that was registered, or what came again in its place.

    A module that is loaded again brings its functions anew; one that is made within a function, or
    a lambda, is another one where its code, or a plain value that it was made with, is another.
    """
    if _place_of(function) != _place_of(taken):
        return False
    is_local = "<" in getattr(function, "__qualname__", "")
    return not is_local or _made_of(function) == _made_of(taken)


_PLAIN = (str, bytes, int, float, tuple, list, dict, set, frozenset)


def _made_of(made: Any, depth: int = 0) -> object:
    """Return what tells functions of one place apart; of what is no plain value its type."""
    code = getattr(made, "__code__", made)
    if isinstance(code, CodeType):
        if depth == DEEPEST:  # as in a function that calls itself
            return code.co_name
        parts = [code.co_code, code.co_names, *(_made_of(one, depth + 1) for one in code.co_consts)]
        given = getattr(made, "__defaults__", None), getattr(made, "__kwdefaults__", None)
        for cell in getattr(made, "__closure__", None) or ():
            try:
                parts.append(_made_of(cell.cell_contents, depth + 1))
            except ValueError:  # it is itself, which has no name yet
                parts.append(None)
        return [*parts, *given]
    return made if made is None or type(made) in _PLAIN else type(made).__qualname__


def _place_of(function: Tokeniser) -> str:
    module = getattr(function, "__module__", "")
    return f"{module}.{getattr(function, '__qualname__', repr(function))}"


def known() -> list[Tokeniser]:
    """Return all tokenisers that are registered."""
    return list(_TOKENISERS.values())


def named(name: str, version: str) -> Tokeniser:
    """Return a registered tokeniser; UnknownTokeniserError if there is none of that version."""
    if (name, version) not in _TOKENISERS:
        metadata = late.module("importlib.metadata")  # slow to load, and mostly not needed
        for found in metadata.entry_points(group=ENTRY_POINTS):
            if found.name == name:
                loaded(found)
    if (name, version) not in _TOKENISERS:
        raise UnknownTokeniserError(name, version)
    return _TOKENISERS[name, version]


class Tokens(Settings, frozen=True, tag_field="of", tag="tokens"):
    """Tokens of a text, made by your own function that ``kinds.tokeniser`` has registered.

    Attributes:
        name, version: the name and version of the registered function.
    """

    name: Named
    version: Named = "1"


class TokenHashes:
    """Hashes the tokens of texts under one collection's secret, as elements of sets are hashed."""

    def __init__(self, tokens: Tokens, secret: bytes) -> None:
        self._tokens = tokens
        self._function = named(tokens.name, tokens.version)
        self._keys = element_keys(secret_words(secret, b"simdb.tokens", 3))
        # The tokens of texts that were looked at, until they are hashed. Several threads take them
        # out; what is dropped is made again.
        self._made: dict[bytes, bytes] = {}
        self._made_bytes = 0

    def look_at(self, text: bytes, compared: str) -> None:
        """Make the tokens of a stored text, and keep them for its symbols; BadItemError if none."""
        if text in self._made:
            return
        if not self._made or self._made_bytes > MOST_KEPT:
            self._made.clear()
            self._made_bytes = 0
        tokens = self._made[text] = self.stored(compared)
        self._made_bytes += len(text) + len(tokens)

    def taken(self, text: bytes | memoryview) -> bytes | None:
        """Take the tokens that were kept of a stored text."""
        tokens = self._made.pop(bytes(text), None)
        if tokens is not None:
            self._made_bytes -= len(text) + len(tokens)
        return tokens

    def stored(self, text: str) -> bytes:
        """Return the tokens of a text as a set is stored; BadItemError if they are none."""
        named_so = f"the tokeniser {self._tokens.name!r}"
        try:
            found = self._function(text)
            tokens = None if isinstance(found, str) else set(found)
        except Exception as error:  # whatever the function does not like
            raise BadItemError(f"{named_so} failed on a text: {error!r}") from error
        if tokens is None:
            raise BadItemError(
                f"{named_so} must return a collection of strings, not a single one, {short(found)}"
            )
        wrong = [one for one in tokens if not isinstance(one, str)]
        if wrong:
            raise BadItemError(f"{named_so} must return strings, not {shown(wrong[0])}")
        return _FORM.stored(sorted(tokens))

    def symbols(self, sets: Sequence[bytes]) -> SymbolSets:
        """Return a symbol for each token of each set of them, as ``stored`` returned it."""
        data, bounds = joined(sets)
        values, offsets = kernels.elements.element_symbols(data, bounds[1:], self._keys)
        require_found(offsets, "set of tokens")
        return SymbolSets(values, offsets)
