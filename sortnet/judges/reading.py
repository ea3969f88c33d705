"""Read the choice in an answer: of a server of language models, of a batch, or of a program.

    a server's `choice` -> content -> text after the thoughts -> JSON, or the last clear choice

All answers are read here. A wrong choice does more harm than no choice, because a question without
an answer is asked again. So a text that can be understood in two ways has no choice.

Only the last `LONGEST` characters are read, and the parts of every pattern have a limited length,
so that no text takes long.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple
from unicodedata import normalize

from sortnet.judges.asked_question import PLACES

SAME = "same"  # the choice if all items are equally good
# Reason why a whole text has no choice.
UNREADABLE = "no choice, or more than one, in the answer: set `structured`, or change the prompt"
LONGEST = 20_000  # characters at the end of a text that are read
_MOST_ALTERNATIVES = 100  # of a token
_MOST_OBJECTS = 50  # positions at which a JSON object is looked for
# Values of `finish_reason`: at the limit of tokens, and for another reason before the end.
_AT_LIMIT = ("length", "max_tokens", "max_output_tokens", "max_length", "model_length")
_STOPPED = ("content_filter", "safety", "recitation", "error", "insufficient_system_resource")

# Letters of another width, such as Ｂ, 𝐁 and Ⓑ, and the stop and brackets of Chinese texts.
_PLAIN = {
    code: normalize("NFKC", chr(code))
    for letters in (range(0x24B6, 0x24EA), range(0xFF01, 0xFF5F), range(0x1D400, 0x1D6A4))
    for code in letters
} | str.maketrans("。【】", ".[]")

_THOUGHT = (
    r"(?:think|thinking|thoughts?|reasoning|reflect|reflection|analysis|scratchpad|cot|"
    r"antthinking|inner_monologue)"
)
# Marks of thoughts such as <think>, </think>, [/THINK], ◁/think▷ and <|end_of_thought|>. Each has a
# first character of its own and a limited length, so that the search for them takes little time.
_THOUGHT_MARK = re.compile(
    rf"""(?xi)
    [<\[◁](?=\|?\s{{0,3}}/?\s{{0,3}}\w)(?:
        (?P<end>
            \|?\s{{0,3}}/\s{{0,3}}(?:[\w-]{{1,20}}:)?{_THOUGHT}\s{{0,3}}\|?[>\]▷]
          | {_THOUGHT}\s{{0,3}}/> | \|end_(?:of_)?{_THOUGHT}\|> | \|{_THOUGHT}_end\|> | unused95>
          | channel\|> | \|channel\|>\s{{0,3}}final(?:[^<\n]|<\|constrain\|>){{0,80}}<\|message\|>
          | begin\ final\ response\]
        )
      | \|?\s{{0,3}}(?:[\w-]{{1,20}}:)?{_THOUGHT}(?:\s[^<>]{{0,200}})?\|?[>\]▷]
      | \|(?:begin|start)_(?:of_)?{_THOUGHT}\|> | \|{_THOUGHT}_(?:start|begin)\|> | unused94>
      | \|channel> | \|channel\|>\s{{0,3}}(?:analysis|commentary)
    )"""
)
# Starts and ends of thoughts in words, where the marks of the model were removed.
_THOUGHT_IN_WORDS = re.compile(r"\s{0,9}(?:analysis(?=[A-Z])|[Hh]ere is my thought process:)")
_END_IN_WORDS = re.compile(r"assistantfinal(?![a-z])|[Hh]ere is my response:")
# The last tokens of an answer that are no part of its content.
_END_TOKEN = re.compile(rb"\s*|<[^<>\s]{1,40}>")
# Marks such as <|return|>, which end or enclose an answer.
_TOKEN = re.compile(r"<\|[\w/]{1,40}\|>|</s>|<(?:eos|end_of_turn)>|\[END FINAL RESPONSE\]")

_NOUN = (
    r"(?:item|text|option|answer|choice|response|candidate|assistant|model|output|version|one|side|"
    r"passage|document|image|picture|letter|sentence|summary|story|joke|entry|place)"
)
# Marks that may stand around a choice. Others, such as a question mark, change its meaning.
_DECOR = r"(?:[^\w?=+/&%@~^≠¬✗✘❌✖]|_){0,40}"
_BEFORE = r"[\s*_`#\"'“‘«(\[{<|\\$:>-]{0,12}"
_BETTER = rf"""(?:\s{{1,3}}(?P<better>wins|(?:is|would\sbe|seems|looks)\s{{1,3}}
    (?:(?:the|clearly|slightly|much|overall|my|a|bit|definitely|far)\s{{1,3}}){{0,3}}
    (?:better|best|winner|superior|stronger|strongest|preferred|preferable|choice|pick|answer)
    (?:\s{{1,3}}(?:{_NOUN}|overall))?))?"""
# What may follow a choice: the end, or a reason; after words that point to it also other marks.
_REASON = r"\s{0,3}[,;–—(-]{0,2}\s{0,3}(?:because|since|due\sto|as\s(?:it|the))\b"
_END = rf"(?={_DECOR}\Z|{_REASON})"
_MARKED_END = rf"""(?={_REASON}|\s{{0,9}}(?:\Z|[.,;!:)\]}}>"”'’*_`|<—–(]|-\s
    |(?:for|with|by|in|overall)\b))"""
_SO = r"""(?:so|thus|hence|therefore|consequently)(?!\s{1,3}(?:far|right|left)\b)
    [\s,:*_`"'(\[]{1,6}"""
_VERDICT = rf"""(?:answer|verdict|winner|choice|decision|conclusion|judge?ment|preference|preferred|
    pick|selection|selected|chosen|result|final|overall|better|best)(?:\s{{1,3}}{_NOUN})?
    ["'*_`)\]\s]{{0,6}}(?:=>|->|--?|[:=>|–—→⇒]|(?:is|goes\sto|would\sbe)\b)"""
_I_CHOOSE = r"""(?P<lead>(?:i|we)(?:['’]d|['’]ll|\swould|\swill)?\s(?:choose|pick|prefer|select|say|
    answer|vote\sfor|go\swith|favou?r)\s{1,3})?"""
# A sentence with such a word has no choice: it denies, asks, or names what was not chosen.
_DENIAL = re.compile(
    r"(?i)(?<!\w)(?:not|cannot|neither|nor|never|if|unless|whether|instead|rather|except|against|"
    r"worse|worst|loser|loses|lost|inferior|weaker|rejected|runner)(?!\w)|n['’]t(?!\w)|\[ \]|~~|"
    r"[✗✘❌✖]|\?\W{0,9}\Z"
)
_SENTENCE = re.compile(r"""\S(?:[^.!?;]|[.!?;](?![*_"')\]]{0,3}\s))*(?:[.!?;][*_"')\]]{0,3})?""")
# Words after which a letter A is a choice; before other words in small letters it is an article.
_AFTER_A = (
    r"because|since|as|is|and|or|but|over|than|for|with|by|due|has|was|in|which|then|best|worst|"
    r"wins|does|would|seems|looks|gets|the"
)
_NO_ARTICLE = rf"(?!\s{{1,3}}(?!(?:{_AFTER_A})\b)[a-z])"

# Parts of the patterns of answers about more than two items.
_MARKS = r"[ \t:*_\"'`(\[<=#>|-]{0,12}"
_SET_LETTER = (
    rf"(?:[B-Fb-f]|[Aa](?!\w){_NO_ARTICLE})(?!\w|['’]\w)"
    r"(?!\s{0,9}(?:or|and|[,/&=])\s{0,9}(?:[A-F]|[a-f](?=\s{0,9}(?:\Z|\n)))(?!\w))"
)
_LABEL = re.compile(
    rf"(?<![^\W_])(?i:(?<!second )(?<!second-)(?<!next )(?<!to )(?<!not )(?<!not the ))"
    rf"(?i:(?P<word>best|worst))(?![^\W_])(?:{_MARKS}(?i:{_NOUN})(?![^\W_]))?"
    rf"(?:{_MARKS}|{_MARKS}[:*]{_MARKS}\n{{1,2}}{_MARKS}"
    rf"|{_MARKS}\n{{1,2}}(?=\W{{0,9}}[A-Fa-f]\W{{0,3}}(?:\n|\Z)){_MARKS})"
    rf"(?:(?i:is|goes to){_MARKS})?"
    rf"(?:(?i:the|{_NOUN})(?![^\W_]){_MARKS}){{0,2}}"
    rf"(?P<choice>{_SET_LETTER}|(?i:same|equal|tie)(?!\w))"
)
_LABEL_AFTER = re.compile(
    rf"(?<!\w)(?P<choice>{_SET_LETTER})[ \t*_\"'`)\]]{{0,6}}(?:is|=|as|:|-|–|—)?[ \t*_]{{0,4}}"
    r"(?i:(?:clearly|by far)\s)?(?i:the\s)?(?i:(?P<word>best|worst))(?!\w|\s{0,3}[:=])"
)
# A ranking such as "B > A > C", a list of letters in a line, and a line of one letter.
_MARKED = r"[*_`\"'()\[\]]{0,4}"
_CHAIN = re.compile(
    rf"(?<!\w)[A-Fa-f](?:{_MARKED}\s{{0,4}}(?:>|<|=|≻|&gt;|&lt;){{1,3}}\s{{0,4}}{_MARKED}"
    rf"(?:(?i:{_NOUN})\s)?[A-Fa-f]){{1,9}}(?!\w)"
)
_LIST = re.compile(r"(?:[^\n:]{0,60}:)?\W{0,9}(?P<list>[A-F](?:[^\w<=>]{1,9}[A-F]){2,9})\W{0,9}")
_LETTER_LINE = re.compile(r"\W{0,9}(?:\d{1,2}[^\w<=]{1,6})?[A-Fa-f]\W{0,9}")
_LETTER = re.compile(r"(?<!\w)[A-Fa-f](?!\w)")
_WORST_FIRST = re.compile(r"(?i)worst\s{1,3}(?:to|first)|ascending")
_TWO_LETTERS = re.compile(r"[\W_]{0,20}([A-Fa-f])[^\w<=/&]{1,20}([A-Fa-f])[\W_]{0,20}")
# Words and marks of an answer without a comment.
_BARE = re.compile(
    rf"(?i)(?<![^\W_])(?:best|worst|same|tie|answer|json|left|right|{_NOUN}|[A-F])(?![^\W_])|[\W_]+"
)


class _Place(NamedTuple):
    """A place of a text that names one choice.

    Attributes:
        choice: the choice, a letter or `SAME`.
        at: position of the choice in the text.
        rank: 2 in a line of its own, or after words such as "Answer:"; 1 after another colon; 0 in
            a sentence.
        kind: name of the pattern that was found.
        line: number of the line, of the lines with letters.
    """

    choice: str
    at: int
    rank: int
    kind: str
    line: int


@dataclass(frozen=True)
class Reading:
    """What an answer says.

    Attributes:
        best: letter of the best item's place; `SAME` if all items are equally good; None if the
            answer has no choice.
        worst: letter of the worst item's place, if it was asked for.
        shares: probabilities of the choices, {"best": {choice: p}, "worst": {choice: p}}, which add
            up to 1; without a name if the server gave none at its place.
        why_not: reason why there is no choice, and what to do; empty if there is a choice.
        text: the content of the answer, with the thoughts in it.
        is_bare: whether the text has the choice only.
    """

    best: str | None = None
    worst: str | None = None
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    why_not: str = ""
    text: str = ""
    is_bare: bool = False

    @property
    def p(self) -> float | None:
        """Probability that the first of two items is better, P(A) + P(same) / 2; None if unknown.

        >>> Reading("B", shares={"best": {"A": 0.25, "B": 0.5, SAME: 0.25}}).p
        0.375
        """
        shares = self.shares.get("best", {})
        if not shares.get("A") or not shares.get("B"):
            return None
        return min(shares["A"] + shares.get(SAME, 0.0) / 2, 1.0)


class _Choices(NamedTuple):
    """Choices in a text and their positions; the position -1 is not known."""

    best: str
    best_at: int = -1
    worst: str | None = None
    worst_at: int = -1


def read_choice(choice: Mapping[str, Any], n_items: int = 2, *, worst: bool = False) -> Reading:
    """Read an element of `choices` in the answer of a server of language models.

    Args:
        choice: the element; any JSON object.
        n_items: number of items in question.
        worst: whether the worst was asked for, too, if there are more than two items.

    >>> read_choice({"message": {"content": "<think>A? No.</think>**B**"}}).best
    'B'
    >>> cut = {"message": {"content": "<think>A"}, "finish_reason": "length"}
    >>> read_choice(cut).why_not
    'the token limit was reached inside the thoughts: raise max_tokens'
    """
    message = choice.get("message")
    message = message if isinstance(message, Mapping) else {"content": choice.get("text")}
    content = _content(message.get("content"))
    refusal = message.get("refusal") or _refusal_in(message.get("content"))
    reason = str(choice.get("finish_reason") or "")
    if refusal:
        return Reading(why_not=str(refusal), text=content)
    is_cut = reason.lower() in (*_AT_LIMIT, *_STOPPED)
    start = _end_of_thoughts(content)
    worst = worst and n_items > 2
    choices = None if start is None else _read(content, start, n_items, worst, is_cut=is_cut)
    if choices is None:
        return Reading(why_not=_why_not(content, start, reason), text=content)
    logprobs = choice.get("logprobs")
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    shares = {
        "best": _shares_at(tokens, content, choices.best, choices.best_at, n_items),
        "worst": _shares_at(tokens, content, choices.worst, choices.worst_at, n_items),
    }
    return Reading(
        choices.best,
        choices.worst,
        {name: of_letters for name, of_letters in shares.items() if of_letters},
        text=content,
        is_bare=_is_bare(content),
    )


def read_phrase(text: object, n_items: int = 2) -> str | None:
    """Read a text that has one choice and nothing else; None if it has anything else.

    >>> read_phrase("Option b"), read_phrase("Left"), read_phrase("tie"), read_phrase("A or B")
    ('B', 'A', 'same', None)
    """
    if not isinstance(text, str):
        return None
    match = _grammar(n_items).whole.fullmatch(text.translate(_PLAIN))
    return None if match is None else _choice_of(match, n_items)


def _content(content: Any) -> str:
    """Return the text of a message's content, a text or a list of parts, without thoughts.

    >>> _content([{"type": "thinking", "thinking": "A?"}, {"type": "text", "text": "B"}])
    'B'
    """
    if isinstance(content, str):
        return content
    joined: list[str] = []
    for text in filter(None, map(_text_of_part, content if isinstance(content, list) else ())):
        # Two parts are separate texts, unless a space or a line break is between them.
        is_apart = not joined or joined[-1][-1].isspace() or text[0].isspace()
        joined.append(text if is_apart else f"\n{text}")
    return "".join(joined)


def _text_of_part(part: Any) -> str:
    """Return the text in a part of a message's content; empty for thoughts and all other parts."""
    if isinstance(part, Mapping):
        is_text = part.get("type") in (None, "text", "output_text") and not part.get("thought")
        part = part.get("text") if is_text else None
    return part if isinstance(part, str) else ""


def _refusal_in(content: Any) -> Any:
    """Return the refusal in the parts of a message's content; None if there is none."""
    parts = content if isinstance(content, list) else ()
    return next((part["refusal"] for part in parts if _has_refusal(part)), None)


def _has_refusal(part: Any) -> bool:
    """Whether a part of a message's content is a refusal."""
    return isinstance(part, Mapping) and bool(part.get("refusal"))


def _end_of_thoughts(content: str) -> int | None:
    """Return the position after the last thought; None if the last thought has no end.

    >>> _end_of_thoughts("A? No.</think>B"), _end_of_thoughts("B"), _end_of_thoughts("<think>A")
    (14, 0, None)
    """
    end: int | None = None if _THOUGHT_IN_WORDS.match(content) else 0
    for mark in _END_IN_WORDS.finditer(content):
        end = mark.end()
    for mark in _THOUGHT_MARK.finditer(content, end or 0):
        end = mark.end() if mark["end"] else None
    return end


def _why_not(content: str, start: int | None, reason: str) -> str:
    """Explain why an answer has no choice, and say what to do.

    Args:
        content: content of the answer.
        start: position after the thoughts; None: a thought has no end.
        reason: `finish_reason` of the server.
    """
    is_empty = start is None or not content[start:].strip()
    if reason.lower() in _AT_LIMIT:
        where = "inside the thoughts" if is_empty else "before a whole answer"
        return f"the token limit was reached {where}: raise max_tokens"
    if start is None:
        return "the thoughts of the model have no end: raise max_tokens"
    if is_empty:
        return f"the model answered without a text: {reason or 'no reason was given'}"
    if reason.lower() in _STOPPED:
        return f"the server stopped the answer: {reason}"
    return UNREADABLE


def _is_bare(text: str) -> bool:
    """Whether a text has one or two choices, words such as "best", and nothing else.

    >>> _is_bare("Best: B, worst: D"), _is_bare("B, as it is longer"), _is_bare("B > A > C")
    (True, False, False)
    """
    n_letters = len(re.findall(r"(?<![^\W_])[A-Fa-f](?![^\W_])", text[:100]))
    return len(text) <= 100 and n_letters <= 2 and not _BARE.sub("", text)


def _read(content: str, start: int, n_items: int, worst: bool, *, is_cut: bool) -> _Choices | None:
    """Read the choices in the content of an answer from a position; None if there are none.

    Args:
        content: content of the answer.
        start: position after the thoughts.
        n_items: number of items in question.
        worst: whether the worst of more than two items was asked for, too.
        is_cut: whether the answer was ended early. Then its last line is not read, unless the
            answer is only a choice.
    """
    start = max(start, len(content) - LONGEST)
    text = _TOKEN.sub(lambda mark: " " * len(mark[0]), content[start:]).translate(_PLAIN)
    objects, end = _in_json(text, n_items, worst)
    if objects:
        after = _last_choice(text[end:], n_items) if n_items == 2 else None
        is_clear = len({(one.best, one.worst) for one in objects}) == 1
        is_denied = after is not None and after.best != objects[-1].best
        choices = objects[-1] if is_clear and not is_denied else None
    else:
        if is_cut and len(re.findall(r"\w", text[:99])) != 1:
            text = text[: text.rfind("\n") + 1]
        choices = _of_set(text, n_items, worst, is_cut=is_cut) if n_items > 2 else None
        if choices is None and not worst:
            choices = _last_choice(text, n_items, is_cut=is_cut)
    letters = PLACES[:n_items]
    if choices is None or choices.best not in (*letters, SAME):
        return None
    best_at = start + choices.best_at
    if choices.best == SAME or not worst:
        return _Choices(choices.best, best_at)
    if choices.worst is None or choices.worst not in letters or choices.worst == choices.best:
        return None
    return _Choices(choices.best, best_at, choices.worst, start + choices.worst_at)


def _in_json(text: str, n_items: int, worst: bool) -> tuple[list[_Choices], int]:
    """Read the JSON objects that were asked for; return their choices, and the end of the last."""
    names = ("answer",) if n_items == 2 else ("best", "worst") if worst else ("best",)
    found: list[_Choices] = []
    end = 0
    decoder = json.JSONDecoder(object_pairs_hook=_by_lower_name)
    for brace in list(re.finditer(r"\{", text))[-_MOST_OBJECTS:]:
        start = brace.start()
        if start < end:
            continue  # inside an object that was read
        try:
            values, value_end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        choices = [read_phrase(values.get(name), n_items) for name in names]
        if choices[0] is not None:
            end = value_end
            at = [start + _value_at(text[start:end], name, values.get(name)) for name in names]
            found.append(_Choices(choices[0], at[0], choices[-1], at[-1]))
    return found, end


def _by_lower_name(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict of a JSON object with small letters in its names; two different values: None."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        is_new = values.setdefault(name.lower(), value) == value
        values[name.lower()] = value if is_new else None
    return values


def _value_at(text: str, name: str, value: Any) -> int:
    """Return the position of the choice in a value of a JSON object."""
    match = re.search(rf'(?i)"{name}"\s{{0,9}}:\s{{0,9}}"', text)
    at = match.end() if match else 0
    return at + len(value) - len(value.lstrip()) if isinstance(value, str) else at


class _Grammar(NamedTuple):
    """Patterns of a choice between some number of items."""

    whole: re.Pattern[str]  # a text of a choice only
    mark: re.Pattern[str]  # a choice in marks of its own, such as [[B]]
    verdict: re.Pattern[str]  # a choice after "Answer:" or a similar word
    so: re.Pattern[str]  # a choice after "so"
    colon: re.Pattern[str]  # a choice after any colon
    sentence: re.Pattern[str]  # a sentence that begins with a choice, or with "I choose"
    mention: re.Pattern[str]  # the name of an item


_RANKS = {"mark": 2, "verdict": 2, "so": 2, "colon": 1, "sentence": 0}


@lru_cache(maxsize=8)
def _grammar(n_items: int) -> _Grammar:
    """Compile the patterns of a choice between `n_items` items."""
    letters = "ABC" if n_items == 2 else PLACES[:n_items]
    letter = f"[{letters}{letters.lower()}]"
    order = r"(?:first|1st|left|second|2nd|right)" if n_items == 2 else r"(?!)"
    choice = rf"""(?:
        (?:(?:the\s)?{_NOUN}[\s\#:*_`"'(\[]{{1,6}})?(?P<letter>{letter})(?!\w|['’]\w)
      | (?:the\s)?{_NOUN}[\s\#]{{1,3}}(?P<number>[12])(?!\w|[.,]\d)
      | (?:the\s{{1,3}})?(?:{_NOUN}\s)?(?P<order>{order})(?!\w)
            (?:[\s-]{{1,3}}(?:hand\s)?{_NOUN}(?!\w))?
      | (?P<same>
            (?:(?:it(?:['’]s|\sis)|th(?:is|ere)\sis|(?:they|both|all|a\sand\sb)(?:\s{_NOUN}s)?\sare
               |(?:they|we)['’]re)\s)?
            (?:an?\s|the\s|all\s|both\s|about\s){{0,2}}
            (?:tie|tied|draw|equal(?:\squality|ly\s\w{{2,12}})?|same|no\sdifference)(?!\w)
        )
    )"""

    def pattern(text: str) -> re.Pattern[str]:
        return re.compile(text, re.IGNORECASE | re.VERBOSE)

    return _Grammar(
        whole=pattern(rf"{_DECOR}{choice}{_DECOR}"),
        mark=pattern(
            rf"(?:\[\[|\\boxed\s?\{{(?:\\\w{{1,10}}\s?\{{)?)\s{{0,3}}{choice}\s{{0,3}}(?:\]\]|\}})"
        ),
        verdict=pattern(rf"(?<![^\W_]){_VERDICT}{_BEFORE}{choice}{_BETTER}{_MARKED_END}"),
        so=pattern(rf"(?<![^\W_]){_SO}{_BEFORE}{choice}{_BETTER}{_END}"),
        colon=pattern(rf":{_BEFORE}{choice}{_BETTER}{_END}"),
        sentence=pattern(rf"\A{_BEFORE}{_I_CHOOSE}{choice}{_BETTER}{_END}"),
        mention=re.compile(
            rf"(?<!\w)(?:(?P<letter>[A{letters}]){_NO_ARTICLE}|(?i:the|{_NOUN})\s{{1,3}}"
            rf"(?P<word>(?i:{order}|{letter}|[12])))(?!\w)"
            rf"|(?:[,/&]|\b(?:or|and)\b)\s{{0,3}}(?P<small>[{letters.lower()[1:]}]|a(?=\W{{0,9}}\Z))(?!\w)"
        ),
    )


def _choice_of(match: re.Match[str], n_items: int) -> str:
    """Return the choice that a pattern has found, a letter or `SAME`."""
    if match["same"]:
        return SAME
    choice = _place_named(match["letter"] or match["number"] or match["order"])
    return SAME if n_items == 2 and choice == "C" else choice


def _place_named(word: str) -> str:
    """Convert a letter, a number or a word such as "first" to the letter of the place."""
    if word.lower() in ("1", "first", "1st", "left"):
        return "A"
    return "B" if word.lower() in ("2", "second", "2nd", "right") else word.upper()


def _position(match: re.Match[str]) -> int:
    """Return the position of the choice that a pattern has found."""
    return max(match.start(name) for name in ("letter", "number", "order", "same"))


def _last_choice(text: str, n_items: int, *, is_cut: bool = False) -> _Choices | None:
    """Find the last place of a text that names one choice alone; None if another contradicts it.

    >>> _last_choice("A: 5 words\\nB: 9 words\\nSo B", 2).best
    'B'
    >>> _last_choice("A or B", 2) is None, _last_choice("A\\nB", 2) is None
    (True, True)
    """
    places = [*_places(text, n_items)]
    if is_cut:  # only what an answer would end with
        places = [place for place in places if place.kind in ("line", "mark", "verdict")]
    if not places:
        return None
    rank = max(place.rank for place in places)
    highest = [place for place in places if place.rank == rank]
    last = highest[-1]
    rivals = [place for place in places if place.at > last.at]
    rivals += highest if rank == 0 else _equally_last(highest)
    if last.kind == "line" and re.search(r"\w", text[last.at :].partition("\n")[2]):
        # Lines of one letter that are followed by texts may be headings.
        rivals += [place for place in highest if place.kind == "line"]
    if any(place.choice != last.choice for place in rivals):
        return None
    return _Choices(last.choice, last.at)


def _equally_last(places: Sequence[_Place]) -> list[_Place]:
    """Return the places of the last line, and those of its kind in the lines right before it."""
    equal: list[_Place] = []
    line, kind = places[-1].line, places[-1].kind
    for place in reversed(places):
        if place.line != line and (place.line, place.kind) != (line - 1, kind):
            break
        line = place.line
        equal.append(place)
    return equal


def _places(text: str, n_items: int) -> Iterator[_Place]:
    """Yield the places of a text that name one choice alone, in their order."""
    grammar = _grammar(n_items)
    start, number = 0, 0
    for line in text.splitlines(keepends=True):
        whole = grammar.whole.fullmatch(line)
        if whole is not None and _DENIAL.search(line) is None:
            at = start + _position(whole)
            yield _Place(_choice_of(whole, n_items), at, 2, "line", number)
        else:
            yield from sorted(_places_in_line(line, start, number, n_items), key=lambda p: p.at)
        start += len(line)
        number += re.search(r"[^\W_]", line) is not None


def _places_in_line(line: str, start: int, number: int, n_items: int) -> Iterator[_Place]:
    """Yield the places of a line's sentences that name one choice alone.

    Args:
        line: the line.
        start: position of the line in the text.
        number: number of the line.
        n_items: number of items in question.
    """
    grammar = _grammar(n_items)
    for span in _SENTENCE.finditer(line):
        sentence = span[0]
        if _DENIAL.search(sentence):
            continue
        mentions = grammar.mention.finditer(sentence)
        named = {_place_named(mention[mention.lastgroup or 0]) for mention in mentions}
        for kind, rank in _RANKS.items():
            for match in getattr(grammar, kind).finditer(sentence):
                if len(named) > 1 and not match["same"]:
                    continue
                if kind == "sentence" and match["order"] and not (match["lead"] or match["better"]):
                    continue  # such as "First, ..."
                at = start + span.start() + _position(match)
                yield _Place(_choice_of(match, n_items), at, rank, kind, number)


def _of_set(text: str, n_items: int, worst: bool, *, is_cut: bool) -> _Choices | None:
    """Find the best of more than two items, and the worst if it was asked for.

    They are named by the words "best" and "worst", or are the first and the last of a ranking of
    all items. The worst may also be the second of two letters.

    >>> _of_set("**Best:** B, worst: D.", 4, True, is_cut=False)[::2]
    ('B', 'D')
    >>> _of_set("C > A > D > B", 4, True, is_cut=False)[::2]
    ('C', 'B')
    """
    best, worst_label = _labelled(text, "best"), _labelled(text, "worst")
    if best is not None and best[0] == SAME:
        return _Choices(*best)
    if best is not None and not worst:
        return _Choices(*best)
    if best is not None and worst_label is not None:
        return _Choices(*best, *worst_label)
    if is_cut or best is not None:
        return None
    all_same = _last_choice(text, n_items) if worst else None
    if all_same is not None and all_same.best == SAME:
        return all_same
    ranking = _ranking(text, n_items)
    if ranking is not None:
        return ranking
    letters = _TWO_LETTERS.fullmatch(text) if worst else None
    if letters is None:
        return None
    return _Choices(letters[1].upper(), letters.start(1), letters[2].upper(), letters.start(2))


def _labelled(text: str, word: str) -> tuple[str, int] | None:
    """Find the choice after the word "best" or "worst", or before it, and its position.

    Words that begin a line come before others. The result is None if there is no choice, or if
    there are several.
    """
    matches = [match for match in _LABEL.finditer(text) if match["word"].lower() == word]
    matches = [match for match in matches if _begins_line(text, match.start())] or matches
    if not matches:
        matches = [one for one in _LABEL_AFTER.finditer(text) if one["word"].lower() == word]
    choices = {_choice_of_label(match) for match in matches}
    if len(choices) != 1:
        return None
    return choices.pop(), matches[-1].start("choice")


def _choice_of_label(match: re.Match[str]) -> str:
    """Return the choice beside the word "best" or "worst", a letter or `SAME`."""
    choice = match["choice"]
    return choice.upper() if len(choice) == 1 else SAME


def _begins_line(text: str, at: int) -> bool:
    """Whether there are only marks between the start of a line and a position."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return len(before) < 20 and re.search(r"[^\W_]", before) is None


def _ranking(text: str, n_items: int) -> _Choices | None:
    """Find a ranking of all items; None if there is none, or if several differ."""
    rankings: dict[str, _Choices] = {}
    for letters in _rankings(text):
        order = "".join(letter[0] for letter in letters).upper()
        if sorted(order) == [*PLACES[:n_items]]:
            best_at, worst_at = letters[0].start(), letters[-1].start()
            rankings[order] = _Choices(order[0], best_at, order[-1], worst_at)
    return next(iter(rankings.values())) if len(rankings) == 1 else None


def _rankings(text: str) -> Iterator[list[re.Match[str]]]:
    """Yield the rankings in a text, each as the matches of its letters, the best first."""
    for chain in _CHAIN.finditer(text):
        signs = {*re.findall("[<>=≻]|&[gl]t;", chain[0])}
        letters = [*_LETTER.finditer(text, *chain.span())]
        if signs <= {">", "≻", "&gt;"}:
            yield letters
        elif signs <= {"<", "&lt;"}:
            yield letters[::-1]
    start = 0
    letters = []  # of successive lines of one letter
    for line in [*text.splitlines(keepends=True), "end"]:
        if _LETTER_LINE.fullmatch(line):
            letters += _LETTER.finditer(text, start, start + len(line))
        elif line.strip():
            yield _best_first(letters, text)
            letters = []
            one_line = _LIST.fullmatch(line)
            if one_line is not None:
                first, last = one_line.span("list")
                yield _best_first([*_LETTER.finditer(text, start + first, start + last)], text)
        start += len(line)


def _best_first(letters: list[re.Match[str]], text: str) -> list[re.Match[str]]:
    """Reverse a list of letters if the line before it, or its line, says "worst to best"."""
    before = text[max(0, letters[0].start() - 200) : letters[0].start()] if letters else ""
    is_reversed = _WORST_FIRST.search(" ".join(before.rsplit("\n", 2)[-2:]))
    return letters[::-1] if is_reversed else letters


def _shares_at(
    tokens: Any, content: str, choice: str | None, at: int, n_items: int
) -> dict[str, float]:
    """Return the probabilities of the choices at a position of the content.

    The dict is empty unless the texts of the tokens fit the content, and the token at the position
    is the choice. Tokens may have the thoughts before the content, or only the content's start.

    Args:
        tokens: tokens with their log-probabilities; any JSON.
        content: content of the answer.
        choice: choice at the position.
        at: position in the content.
        n_items: number of items in question.
    """
    if choice is None or not isinstance(tokens, list):
        return {}
    token = _token_at([token for token in tokens if isinstance(token, dict)], content, at)
    if token is None or read_phrase(token.get("token"), n_items) != choice:
        return {}
    alternatives = token.get("top_logprobs")
    alternatives = alternatives[:_MOST_ALTERNATIVES] if isinstance(alternatives, list) else []
    probability_of = {_token_text(each): _probability(each) for each in alternatives}
    probability_of.setdefault(_token_text(token), _probability(token))
    masses: dict[str, float] = {}
    for text, probability in probability_of.items():
        # Several tokens may be the same choice, such as "B" and " B".
        named = read_phrase(text, n_items)
        if named is not None and probability and (named != SAME or n_items == 2):
            masses[named] = masses.get(named, 0.0) + probability
    total = sum(masses.values())
    return {named: mass / total for named, mass in masses.items()}


def _token_at(
    tokens: Sequence[Mapping[str, Any]], content: str, at: int
) -> Mapping[str, Any] | None:
    """Find the token at a position of the content; None if the tokens are of another text."""
    pieces = [_token_bytes(token) for token in tokens]
    while pieces and _END_TOKEN.fullmatch(pieces[-1]):
        pieces.pop()
    written, wanted = b"".join(pieces).rstrip(), _encoded(content).rstrip()
    place = len(_encoded(content[:at]))
    if written.endswith(wanted.lstrip()) or wanted.endswith(written.lstrip()):
        place += len(written) - len(wanted)
    elif wanted.startswith(written):
        pass  # only the first tokens are given
    else:
        return None
    end = 0
    for token, piece in zip(tokens, pieces, strict=False):
        end += len(piece)
        if end > place >= 0:
            return token
    return None


def _token_text(token: Any) -> str:
    """Return the text of a token; empty if it has none."""
    text = token.get("token") if isinstance(token, Mapping) else None
    return text if isinstance(text, str) else ""


def _token_bytes(token: Mapping[str, Any]) -> bytes:
    """Return the bytes of a token, which may be a part of a letter, or else its text."""
    try:
        return bytes(token["bytes"])
    except (KeyError, TypeError, ValueError):
        return _encoded(_token_text(token))


def _encoded(text: str) -> bytes:
    """Encode a text that may have half of a surrogate pair."""
    return text.encode("utf-8", "surrogatepass")


def _probability(token: Any) -> float:
    """Convert the log-probability of a token to its probability; 0 if it has none."""
    logprob: Any = token.get("logprob") if isinstance(token, Mapping) else None
    try:
        probability = math.exp(min(float(logprob), 0.0))
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return probability if probability <= 1.0 else 0.0  # not a number is not smaller either
