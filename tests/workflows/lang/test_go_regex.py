from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.workflows.lang import go_regex
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_regex import compile_regex, quote_meta


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("", "abc", ""),
        ("b", "abc", "b"),
        ("a|ab", "ab", "a"),
        ("ab|a", "ab", "ab"),
        ("a*", "baaa", ""),
        ("a+", "baaa", "aaa"),
        ("a+?", "baaa", "a"),
        ("a{2}", "aaaa", "aa"),
        ("a{2,}", "aaaa", "aaaa"),
        ("a{1,3}?", "aaaa", "a"),
        ("x{,2}", "x{,2}", "x{,2}"),
        ("^b", "ab", None),
        ("(?m)^b$", "a\nb\nc", "b"),
        ("b$", "ab\n", None),
        (".", "\n", None),
        ("(?s).", "\n", "\n"),
        ("(?i)aBc", "xAbC", "AbC"),
        ("(?i:a)b", "Ab", "Ab"),
        ("(?i:a)b", "AB", None),
        ("(?U)a+", "aaa", "a"),
        ("[a-c]+", "xabcd", "abc"),
        ("[^a-c]+", "abxyc", "xy"),
        ("[]a]+", "]a", "]a"),
        ("[a-]+", "-a", "-a"),
        ("[[:digit:]x]+", "a1x2", "1x2"),
        (r"\d+\s\w+", "a 12 bc", "12 bc"),
        (r"[\d.]+", "v1.2", "1.2"),
        (r"\D", "1a", "a"),
        (r"\bcat\b", "a cat.", "cat"),
        (r"\Bat", "cat at", "at"),
        (r"\x41\x{42}\103", "ABC", "ABC"),
        (r"\Qa.b\E+", "a.bb", "a.bb"),
        (r"\pL+", "1éa2", "éa"),
        (r"\p{Greek}+", "aβγ", "βγ"),
        (r"\PL", "a1", "1"),
        (r"\.\*", "a.*", ".*"),
        (r"\Aab\z", "ab", "ab"),
        ("(a*)*b", "aaab", "aaab"),
        ("(a|b)*abb", "ababb", "ababb"),
        ("日+", "今日日", "日日"),
    ],
)
def test_the_leftmost_match(pattern: str, text: str, found: str | None) -> None:
    match = compile_regex(pattern).find(text)
    assert (None if match is None else text[match.start : match.end]) == found
    assert compile_regex(pattern).matches(text) is (found is not None)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("(a{100}){100}", "invalid repeat count: `{100}`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:nope:]]", "invalid character class range: `[:nope:]`"),
        (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\y", r"invalid escape sequence: `\y`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?<=a)", "invalid named capture: `(?<=a)`"),
        ("(?P<>a)", "invalid named capture: `(?P<>`"),
        ("(?P=n)", "invalid or unsupported Perl syntax: `(?P`"),
    ],
)
def test_invalid_patterns_have_the_errors_of_go(pattern: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_regex(pattern)
    assert caught.value.message == f"error parsing regexp: {message}"


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a", "banana", ["a", "a", "a"]),
        ("a*", "baac", ["", "aa", ""]),
        ("", "ab", ["", "", ""]),
        ("an|na", "banana", ["an", "an"]),
    ],
)
def test_all_matches(pattern: str, text: str, found: list[str]) -> None:
    assert [text[match.start : match.end] for match in compile_regex(pattern).find_all(text)] == found


def test_captures_and_replacements() -> None:
    regex = compile_regex(r"(?P<year>\d+)-(\d+)(x)?")
    match = regex.find("on 2024-05!")
    assert match is not None
    assert match.groups == ((3, 10), (3, 7), (8, 10), (-1, -1))
    assert regex.replace("on 2024-05!", "$2/${year}$3$$") == "on 05/2024$!"
    assert regex.replace("2024-05", "$1x") == ""
    assert regex.replace("2024-05", "$1", literal=True) == "$1"


@pytest.mark.parametrize(
    ("pattern", "text", "most", "pieces"),
    [
        ("z+", "pizza", -1, ["pi", "a"]),
        ("z", "pizza", 2, ["pi", "za"]),
        ("a", "aba", -1, ["", "b", ""]),
        ("", "abc", -1, ["a", "b", "c"]),
        ("a", "", -1, [""]),
        ("a", "xax", 0, []),
    ],
)
def test_split(pattern: str, text: str, most: int, pieces: list[str]) -> None:
    assert compile_regex(pattern).split(text, most) == pieces


@given(st.text())
def test_a_quoted_text_matches_itself(text: str) -> None:
    match = compile_regex(quote_meta(text)).find(text)
    assert match is not None
    assert (match.start, match.end) == (0, len(text))


SIMPLE = st.recursive(
    st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", r"\w"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)


@given(SIMPLE, st.text("abc", max_size=8))
def test_simple_patterns_match_as_in_python(pattern: str, text: str) -> None:
    assert compile_regex(pattern).matches(text) is (re.search(pattern, text) is not None)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)b", "a{0,100}a{0,100}b"])
def test_a_pattern_that_backtracking_engines_hang_on(pattern: str) -> None:
    assert compile_regex(pattern).matches("a" * 5000) is False


def test_a_text_too_long_for_its_pattern_is_rejected() -> None:
    with pytest.raises(ExpressionError, match="too long for this regular expression"):
        compile_regex("(?:a|b)*a(?:a|b){900}c").matches("ab" * 100_000)


def test_searches_that_take_too_long_together_are_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go_regex, "_MAX_SECONDS", 0.05)
    with pytest.raises(ExpressionError, match="too long for this regular expression"):
        list(compile_regex("a*?b|a").find_all("a" * 100_000))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"a\C", r"invalid escape sequence: `\C`"),
        (r"(\C", r"invalid escape sequence: `\C`"),
        (r"\x{", r"invalid escape sequence: `\x{`"),
        (r"[a\P", r"invalid character class range: `\P`"),
        ("(?P<é>a)", "invalid named capture: `(?P<é>`"),
        ("x(?<!a>)", "invalid named capture: `(?<!a>`"),
        ("a\udcff", "invalid UTF-8: `\ufffd`"),
        ("(" * 1001 + ")" * 1001, "expression nests too deeply: `" + "(" * 1001 + ")" * 1001 + "`"),
    ],
)
def test_errors_that_re2_does_not_have_or_words_differently(pattern: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_regex(pattern)
    assert caught.value.message == f"error parsing regexp: {message}"


def test_a_pattern_that_is_too_large_is_rejected() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_regex("a" * 100_000 + "(?:b{1000}){1}" * 100)
    assert caught.value.message == "error parsing regexp: expression too large"


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"\B", "aéa", []),
        (r"\B", "é日", [(0, 0), (1, 1), (2, 2)]),
        ("", "é日", [(0, 0), (1, 1), (2, 2)]),
        ("日|é", "aé日", [(1, 2), (2, 3)]),
        ("a.b", "a\udcffb", [(0, 3)]),
        ("\ufffd", "a\udcffb", [(1, 2)]),
        (r"\Q(?P<x>\E[(](?P<y>.)", "(?P<x>(é", [(0, 8)]),
    ],
)
def test_positions_count_characters_and_invalid_bytes_are_replacement_characters(
    pattern: str, text: str, found: list[tuple[int, int]]
) -> None:
    assert [(match.start, match.end) for match in compile_regex(pattern).find_all(text)] == found


@pytest.mark.parametrize(
    ("template", "result"),
    [
        ("$1", "b"),
        ("$01", ""),
        ("${2}", ""),
        ("$9", ""),
        ("${n}-$0", "b-ab"),
        ("${", "${"),
        ("$é", ""),
        ("$999999999999", ""),
    ],
)
def test_templates_of_replacements(template: str, result: str) -> None:
    assert compile_regex("a(?P<n>b)(c)?").replace("ab", template) == result


def test_a_shared_name_means_the_first_capture_that_matched() -> None:
    assert compile_regex("(?P<n>a)|(?P<n>b)").replace("ab", "<$n>") == "<a><b>"
