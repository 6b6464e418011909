"""A threshold is multiplied or divided in one module only, where that is exact."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.sources import tree_of
from tests.test_architecture import MODULES, PACKAGE, module_name

# A threshold is a rational number; what follows from it for sizes is computed in one module.
THRESHOLDS = "exact/thresholds.py"
# The other functions that multiply or divide by one. In the first table both factors are whole
# numbers or fractions, so the bound is exact. In the second they are floats, which is right only
# where no item, pair or bound depends on the result.
EXACT_PRODUCTS = {
    "exact/measures.py Criterion.floor": "the Jaccard threshold that Dice or cosine amounts to",
    "exact/measures.py Criterion.needed_overlap": "the square of a cosine, which is rational",
    "exact/segments.py Cut.within": "a share rounded up to a denominator, in whole numbers",
    "lsh/family.py minimum_matches": "a binomial tail, summed in integers",
}
FLOAT_PRODUCTS = {
    "answers/slabs.py Pigeonhole._sorted": "rows sorted, by which a method is chosen",
    "upkeep/survey.py _beyond": "how far beyond a bound is looked, where what is found is told",
}

THRESHOLD_NAME = re.compile(
    r"(^|_)(thresholds?|floors?)$|(least|lowest|minimum|wanted)_similarity$", re.IGNORECASE
)
# Of these is in the text of every module that has one.
WORDS = re.compile("threshold|floor|similarity|fraction", re.IGNORECASE)
PARTS_OF_A_FRACTION = {"fraction", "numerator", "denominator"}
# What makes another number of a number: a threshold it is given comes out as one.
CONVERSIONS = {
    *("float", "int", "abs", "round", "Fraction", "Decimal", "Threshold", "parse"),
    *("float16", "float32", "float64", "asarray", "array", "as_integer_ratio", "min", "max"),
}
PRODUCTS = (ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
PRODUCT_CALLS = {
    *("multiply", "divide", "true_divide", "floor_divide", "divmod", "mod", "remainder", "power"),
    *("mul", "truediv", "floordiv", "pow", "prod", "dot", "outer"),
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def last_name(node: ast.expr) -> str:
    """The name that an expression ends in: ``float64`` of ``np.float64``."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@dataclass
class Names:
    """The local names of a function that hold thresholds, and those that hold quotients."""

    thresholds: set[str]
    quotients: set[str]

    def is_threshold(self, node: ast.expr | None) -> bool:
        """Whether the value of an expression is a threshold, or one plus, minus or times a number.

        So ``float(threshold)``, ``1 - self.floor``, ``wanted.fraction`` are, and a call that takes
        a threshold for something else is not.
        """
        if isinstance(node, ast.Name):
            return node.id in self.thresholds or bool(THRESHOLD_NAME.search(node.id))
        if isinstance(node, ast.Attribute) and node.attr not in PARTS_OF_A_FRACTION:
            return bool(THRESHOLD_NAME.search(node.attr))
        is_made = isinstance(node, ast.Attribute) and node.attr == "fraction"
        return is_made or any(map(self.is_threshold, carriers(node)))

    def is_quotient(self, node: ast.expr) -> bool:
        """Whether the value of an expression was multiplied or divided here."""
        if isinstance(node, ast.Name):
            return node.id in self.quotients
        return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult)

    def learn(self, nodes: list[ast.AST]) -> None:
        """Follow assignments until no name is added."""
        before = -1
        while before != len(self.thresholds) + len(self.quotients):
            before = len(self.thresholds) + len(self.quotients)
            for node in nodes:
                for target, value in assigned(node):
                    if self.is_threshold(value):
                        self.thresholds |= names_in(target)
                    elif self.is_quotient(value):
                        self.quotients |= names_in(target)

    def misuses(self, node: ast.AST) -> bool:
        """Whether a node multiplies or divides by a threshold, or holds a quotient against one."""
        match node:
            case ast.BinOp(left=left, right=right, op=operator):
                is_product = isinstance(operator, PRODUCTS)
                return is_product and (self.is_threshold(left) or self.is_threshold(right))
            case ast.AugAssign(target=target, value=value, op=operator):
                is_product = isinstance(operator, PRODUCTS)
                return is_product and (self.is_threshold(target) or self.is_threshold(value))
            case ast.Call(func=called, args=given) if last_name(called) in PRODUCT_CALLS:
                return any(map(self.is_threshold, given))
            case ast.Compare(left=left, comparators=others):
                sides = [left, *others]
                return any(map(self.is_threshold, sides)) and any(map(self.is_quotient, sides))
        return False


def carriers(node: ast.expr | None) -> list[ast.expr | None]:
    """The parts of an expression of which one must be a threshold for the whole to be one."""
    parts: list[ast.expr | None] = []
    match node:
        case ast.Call(func=called, args=given) if last_name(called) in CONVERSIONS:
            receiver = called.value if isinstance(called, ast.Attribute) else called
            parts = [*given, receiver]
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.BoolOp(values=values) | ast.Tuple(elts=values):
            parts = [*values]
        case ast.IfExp(body=body, orelse=other):
            parts = [body, other]
        case (
            ast.UnaryOp(operand=value)
            | ast.Attribute(value=value)
            | ast.Subscript(value=value)
            | ast.Starred(value=value)
            | ast.NamedExpr(value=value)
        ):
            parts = [value]
    return parts


def assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets of a statement with the values that they are given; tuples part by part."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    yield from zip(target.elts, value.elts, strict=False)
                else:
                    yield target, value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case ast.NamedExpr(target=target, value=value):
            yield target, value


def names_in(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def misuses_of_thresholds(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Where sources multiply or divide by a threshold: the function, in full, and the code."""

    def search(scope: ast.AST, name: str, known: Names) -> Iterator[tuple[str, str]]:
        own = Names(set(known.thresholds), set(known.quotients))
        if isinstance(scope, FUNCTIONS):
            arguments = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
            own.thresholds |= {
                argument.arg
                for argument in arguments
                if argument.annotation and "Threshold" in ast.unparse(argument.annotation)
            }
        inside: list[ast.AST] = []
        scopes: list[ast.AST] = []
        remaining: list[ast.AST] = list(ast.iter_child_nodes(scope))
        while remaining:
            node = remaining.pop()
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                scopes.append(node)
                continue
            inside.append(node)
            remaining += ast.iter_child_nodes(node)
        own.learn(inside)
        yield from ((name, ast.unparse(node)) for node in inside if own.misuses(node))
        for inner in scopes:
            yield from search(inner, f"{name}.{getattr(inner, 'name', 'lambda')}".lstrip("."), own)

    yield from search(tree, "", Names(set(), set()))


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_only_one_module_multiplies_or_divides_by_a_threshold(path):
    place = path.relative_to(PACKAGE).as_posix()
    if place == THRESHOLDS or not WORDS.search(path.read_text(encoding="utf-8")):
        return
    allowed = EXACT_PRODUCTS.keys() | FLOAT_PRODUCTS.keys()
    wrong = [
        (function, code)
        for function, code in misuses_of_thresholds(tree_of(path))
        if f"{place} {function}" not in allowed
    ]
    assert not wrong, f"let simdb/{THRESHOLDS} do it, in whole numbers"


@pytest.mark.parametrize("named", [*EXACT_PRODUCTS, *FLOAT_PRODUCTS])
def test_functions_that_may_multiply_by_a_threshold_do_and_exactly_unless_said(named):
    place, function = named.split()
    tree = tree_of(PACKAGE / place)
    assert function in {name for name, _ in misuses_of_thresholds(tree)}, f"drop {named}"
    if named in EXACT_PRODUCTS:
        body = next(
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name == function.rpartition(".")[2]
        )
        floats = [
            node
            for node in ast.walk(body)
            if (isinstance(node, ast.Constant) and isinstance(node.value, float))
            or (isinstance(node, ast.Call) and last_name(node.func).startswith("float"))
        ]
        assert not floats


@pytest.mark.parametrize(
    "source",
    [
        "def f(threshold, length): return threshold * length",
        "def f(length, *, threshold): return int((1 - threshold) * length) + 1",
        "def f(self, length): return length - ceil(float(self.exact_floor) * length)",
        "def f(wanted: Threshold, length): return wanted.fraction * length",
        "def f(wanted: Threshold, n):\n    top, bottom = wanted.fraction.as_integer_ratio()\n"
        "    return top * n // bottom",
        "def f(text, n):\n    lowest = Threshold.parse(text).fraction\n    return n / lowest",
        "def f(threshold, n):\n    share = float(threshold)\n    return [share * m for m in n]",
        "def f(threshold, n):\n    n *= threshold",
        "def f(threshold, sizes): return np.multiply(sizes, threshold)",
        "def f(threshold, n):\n    def g(m): return m % threshold\n    return g(n)",
        "def f(overlap, union, threshold): return overlap / union >= threshold",
        "def f(overlap, union, threshold):\n    similarity = overlap / union\n"
        "    return threshold <= similarity",
        "class A:\n    def f(self, n): return n // self.settings.threshold",
        "HALF = LOWEST_FLOOR / 2",
        "f = lambda threshold, length: threshold * length",
    ],
)
def test_a_product_with_a_threshold_is_seen(source):
    assert list(misuses_of_thresholds(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "def f(threshold, sizes): return 2 * threshold.minimum_size(sizes)",
        "def f(n): return math.floor(n) * 2 + floor(n) / 3",
        "def f(threshold, similarity): return similarity >= threshold",
        "def f(threshold, n): return (threshold + 1, n * 2)",
        "def f(threshold): return str(threshold) + f'{float(threshold):.3f}'",
        "def f(n, total):\n    share = n / total\n    return share >= 0.5",
    ],
)
def test_what_is_no_product_with_a_threshold_is_let_pass(source):
    assert not list(misuses_of_thresholds(ast.parse(source)))
