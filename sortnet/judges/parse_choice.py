"""Read the choice in an answer: of a server of language models, of a batch, or of a program.

    a server's `choice` -> content -> text after the thoughts -> the clearest places, if they agree

All answers are read here. A wrong choice does more harm than no choice, because a question without
an answer is asked again. So a text that can be understood in two ways has no choice.

Only the last `_MOST_READ` characters are read, and the parts of every pattern have a limited
length, so that no text takes long.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple
from unicodedata import normalize

from sortnet.judges.asked_question import PLACES

SAME = "same"  # the choice if all items are equally good
# Reason why a whole text has no choice.
UNREADABLE = "no choice, or more than one, in the answer: set `structured`, or change the prompt"
_MOST_READ = 20_000  # most characters that are read, at the end of a text
_MOST_ALTERNATIVES = 100  # most alternatives of a token that are read
_MOST_ROUNDED = 1.01  # a larger probability is none
_LONGEST_BARE = 100  # characters of a text that may have the choice only
# Values of `finish_reason`: at the limit of tokens, and for another reason before the end.
_AT_LIMIT = ("length", "max_tokens", "max_output_tokens", "max_length", "model_length")
_STOPPED = ("content_filter", "safety", "recitation", "error", "insufficient_system_resource")

# Letters of another width, such as Ｂ, 𝐁 and Ⓑ, the stop and brackets of Chinese texts, and ≻.
_PLAIN_LETTERS = {
    code: normalize("NFKC", chr(code))
    for letters in (range(0x24B6, 0x24EA), range(0xFF01, 0xFF5F), range(0x1D400, 0x1D6A4))
    for code in letters
} | str.maketrans("。【】「」『』≻", '.[]"""">')

_THOUGHT = (
    r"(?:think|thinking|thoughts?|reasoning|reflect|reflection|analysis|scratchpad|cot|"
    r"antthinking|inner_monologue)"
)
# Marks of thoughts such as <think>, </think>, [/THINK], ◁/think▷ and <|end_of_thought|>, or words,
# where the marks of the model were removed. The length of each is limited, so that the search for
# them takes little time.
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
    )
    | (?P<end_in_words>assistantfinal(?-i:(?![a-z])) | here\ is\ my\ response:)
    | \A\s{{0,9}}(?:analysis(?-i:(?=[A-Z])) | here\ is\ my\ thought\ process:)"""
)
_OPEN_TAG = re.compile(r"(?s)\s{0,9}<(\w{1,30})>(?!.*</\1>)")  # a tag that has no end
# Marks such as <|return|>, which end or enclose an answer.
_END_MARK = re.compile(r"<\|[\w/]{1,40}\|>|</s>|<(?:eos|end_of_turn)>|\[END FINAL RESPONSE\]")

# A letter or digit, except of scripts that have no blanks between words.
_IN_WORD = r"[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
_NOUN = (
    r"(?:item|text|option|answer|choice|response|candidate|assistant|model|output|version|one|side|"
    r"passage|document|image|picture|letter|sentence|summary|story|joke|entry|place)"
)
# Marks that may stand around a choice. Others, such as a question mark, change its meaning.
_DECOR = r"(?:[^\w?=+/&%@~^≠¬✗✘❌✖]|_){0,40}"
_BEFORE = r"[\s*_`#\"'“‘«(\[{<|\\$:>-]{0,12}"
_BETTER = rf"""(?:[*_`"'”’)\]]{{0,4}}\s{{1,3}}(?:wins|лучше
      |(?:is|ist|est|es|would\sbe|seems|looks)\s{{1,3}}
        (?:(?:the|clearly|slightly|much|overall|my|a|bit|definitely|far)\s{{1,3}}){{0,3}}
        (?:better|best|winner|superior|stronger|strongest|preferred|preferable|choice|pick|answer
           |besser|meilleure?|mejor)
        (?:\s{{1,3}}(?:{_NOUN}|overall))?)
    |\s{{0,3}}(?:更好|更优|の(?:方|ほう)が(?:良|よ|い)い(?:です)?|です|を選\w{{1,5}}))"""
# What may follow a choice: the end; after words that point to it also other marks. A reason is a
# clause of its own.
_REASON = r"\s{0,3}[,;–—(-]{0,2}\s{0,3}(?:because|since|due\sto|as\s(?:it|the)|weil|denn)\b"
_END = rf"(?={_DECOR}\Z)"
_MARKED_END = r"""(?=\s{0,9}(?:\Z|[.,;!:)\]}>"”'’*_`|<—–(]|-\s|(?:for|with|by|in|overall)\b))"""
_SO = r"""(?:(?:so|thus|hence|therefore|consequently|overall|as\sa\sresult|to\sconclude
        |in\s(?:conclusion|summary)|因此|所以)(?!\s{1,3}(?:far|right|left)\b)
    |(?:wait|no(?=[,.:!–—-])|actually|correction)
        (?:[\s,.:!–—-]{1,6}(?:no|actually|it(?:['’]s|\sis))\b)?)[\s,.:!*_`"'(\[–—-]{1,6}"""
_VERDICT = rf"""(?:answer|verdict|winner|choice|decision|conclusion|judge?ment|preference|preferred|
    pick|selection|selected|chosen|result|final|overall|better|best|antwort|urteil|réponse|respuesta
    |meilleure?|mejor|ответ|答案|答え|回答|更好的)(?:\s{{1,3}}{_NOUN})?["'*_`)\]\s]{{0,6}}
    (?:=>|->|--?|[:=>|–—→⇒是为は]|(?:is|goes\sto|would\sbe|ist|est|es)\b)"""
_I_CHOOSE = r"""(?P<lead>(?:(?:i|we)(?:['’]d|['’]ll|\swould|\swill)?\s(?:choose|pick|prefer|select|
            say|answer|vote\sfor|go\swith|favou?r|think|believe|call)(?:\sthat)?(?:\sit(?:['’]s)?)?
        |ich\s(?:wähle|bevorzuge)|je\s(?:choisis|préfère)|elijo|prefiero|я\sвыбираю
        |it(?:['’]s|\sis)|in\smy\s(?:opinion|view)|definitely|clearly|probably|likely)[\s,:]{1,3})?"""
# A sentence with such a word has no choice: it denies, asks, or names what was not chosen.
_DENIAL = re.compile(
    r"(?i)(?<!\w)(?:not|cannot|neither|nor|never|if|unless|whether|instead|rather|except|against|"
    r"worse|worst|loser|loses|lost|inferior|weaker|rejected|runner|"
    r"nicht|kein\w*|weder|wenn|falls|schlechter|pas|moins|pire|peor|не|ни|хуже|если)(?!\w)|"
    r"[不没吗]|ない|n['’]t(?!\w)|\[ \]|~~|"
    r"[✗✘❌✖]|\?\W{0,9}\Z"
)
_TURN = r",\s{1,3}(?:but|yet|so|thus|therefore|hence)\b"
# A sentence, or a clause that may have another choice than the clauses beside it.
_SENTENCE = re.compile(
    rf"""(?xi)(?:while|although|though|between|(?:out\s)?of)\b[^.!?;,]{{1,200}},
    |\S(?:(?!{_REASON}|{_TURN})[^.!?;]|[.!?;](?![*_"')\]]{{0,3}}\s)|(?<=\svs)\.)*
        (?:[.!?;][*_"')\]]{{0,3}}|{_TURN})?"""
)
# A comparison of two, such as "A is better than B", "A, not B" or "A > B": the better is kept.
_COMPARISON = re.compile(
    rf"""(?xi)(?P<better>(?<![\w<])(?:[AB]|first|second)[*_`"'”’)\]]{{0,4}}(?:\s{_NOUN})?{_BETTER}?)
    (?:,?\s{{1,3}}(?:than|over|beats|rather\sthan|instead\sof|als|que|чем)\s
      |(?<=superior|eferable)\sto\s|[,\s(]{{1,3}}(?:and\s)?not\s|[ ]{{0,6}}>{{1,3}})
    [ *_`"'(\[]{{0,4}}(?:(?:the\s)?{_NOUN}\s)?
    (?:[AB]|the\s(?:first|second|other)(?:\s{_NOUN})?)(?!\w|['’]\w|>)[)*_`"'\]]{{0,3}}
    |(?<![\w<])[AB][ ]{{0,6}}<{{1,3}}(?=[ ]?[AB](?![\w>]))"""
)
# Words after which a letter A is a choice; before other words in small letters it is an article.
_AFTER_A = (
    r"because|since|as|is|and|or|but|over|than|for|with|by|due|has|was|in|which|then|best|worst|"
    r"wins|does|would|seems|looks|gets|the"
)
_NO_ARTICLE = rf"(?!\s{{1,3}}(?!(?:{_AFTER_A})\b)[a-z])"

# Parts of the patterns of answers about more than two items.
_MARKS = r"[ \t:*_\"'`(\[<=#>|→-]{0,12}"
_SET_LETTER = (
    rf"(?:[B-Fb-f]|[Aa](?!\w){_NO_ARTICLE})(?!\w|['’]\w)"
    r"(?!\s{0,9}(?:or|and|[,/&=])\s{0,9}(?:[A-F]|[a-f](?=\s{0,9}(?:\Z|\n)))(?!\w))"
)
_LABEL = (
    rf"(?<![^\W_])(?i:(?<!second )(?<!second-)(?<!2nd )(?<!third )(?<!3rd )(?<!next ))"
    r"(?i:(?<!to )(?<!not )(?<!not the ))"
    rf"(?i:WORD)(?![^\W_])(?:{_MARKS}(?i:{_NOUN})(?![^\W_]))?"
    rf"(?:{_MARKS}|{_MARKS}[:*]{_MARKS}\n{{1,2}}{_MARKS}"
    rf"|{_MARKS}\n{{1,2}}(?=\W{{0,9}}[A-Fa-f]\W{{0,3}}(?:\n|\Z)){_MARKS})"
    rf"(?:(?i:is|goes to){_MARKS})?"
    rf"(?:(?i:the|{_NOUN})(?![^\W_]){_MARKS}){{0,2}}"
    rf"(?P<choice>{_SET_LETTER}|(?i:same|equal|tie)(?!\w))"
)
_LABEL_AFTER = (
    rf"(?<!\w)(?P<choice>{_SET_LETTER})[ \t*_\"'`)\]]{{0,6}}(?:is|=|as|:|-|–|—)?[ \t*_(]{{0,4}}"
    r"(?i:(?:clearly|by far)\s)?(?i:the\s)?(?i:WORD)(?!\w|\s{0,3}[:=])"
)
# Patterns of a label and its choice: the label begins a line, stands elsewhere, or follows.
_LABELS = {
    label: [
        re.compile(pattern.replace("WORD", word))
        for pattern in (rf"(?m)^[\W_]{{0,19}}{_LABEL}", _LABEL, _LABEL_AFTER)
    ]
    for label, word in (
        (
            "best",
            r"(?:best(?:e[rs]?)?|meilleure?|mejor|лучший|最好|最佳|最良|winner|most preferred)",
        ),
        (
            "worst",
            r"(?:worst|schlechteste[rs]?|pire|peor|худший|最差|最悪|loser|least preferred)",
        ),
    )
}
_WORD = re.compile(r"[^\W_]")
_LETTER = re.compile(r"(?<!\w)(?P<letter>[A-Fa-f])(?!\w)")
_WORST_FIRST = re.compile(r"(?i)worst\s{1,3}(?:to|first)[^\n]{0,99}\n?[^\n]{0,99}\Z")
# Words and marks of an answer without a comment.
_BARE = re.compile(
    rf"(?i)(?<![^\W_])(?:best|worst|same|tie|answer|json|left|right|{_NOUN}|[A-F])(?![^\W_])|[\W_]+"
)


# Texts that are whole, although the limit of tokens was reached: a letter, or a JSON object.
_WHOLE = re.compile(r"(?s)\W*\w\W*|.*\}\W*")
# Marks of blanks in the vocabularies of models.
_BLANKS = {"Ġ".encode(): b" ", "▁".encode(): b" ", "Ċ".encode(): b"\n"}
_NAMES = dict.fromkeys(("1", "one", "first", "1st", "left", "former"), "A")
_NAMES |= dict.fromkeys(("2", "two", "second", "2nd", "right", "latter"), "B")


class _Place(NamedTuple):
    """A place of a text that names one choice; the clearest and last place is the greatest.

    Attributes:
        rank: how clearly the text has the choice, one of `_RANKS`.
        at: position of the choice in the text.
        choice: the choice, a letter or `SAME`.
        line: number of its line, of the lines with letters.
    """

    rank: int
    at: int
    choice: str
    line: int = 0


@dataclass(frozen=True)
class Reading:
    """Choice that was read in an answer.

    Attributes:
        best: letter of the best item's place; `SAME` if all items are equally good; None if the
            answer has no choice.
        worst: letter of the worst item's place, if it was asked for.
        p: probability that the first of two items is better, P(A) + P(same) / 2; None if the server
            gave no probabilities of A and of B.
        why_not: reason why there is no choice, and what to do; empty if there is a choice.
        text: the content of the answer, with the thoughts in it.
        is_bare: whether the text has the choice only.
    """

    best: str | None = None
    worst: str | None = None
    p: float | None = None
    why_not: str = ""
    text: str = ""
    is_bare: bool = False


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
    content = message.get("content")
    content_parts = content if isinstance(content, list) else [content]
    text = "".join(map(_text_of_part, content_parts))
    for part in (message, *content_parts):
        if isinstance(part, Mapping) and part.get("refusal"):
            return Reading(why_not=str(part["refusal"]), text=text)
    reason = str(choice.get("finish_reason") or "")
    is_cut = reason.lower() in (*_AT_LIMIT, *_STOPPED)
    # The marks of thoughts have many names and languages.
    is_in_tag = is_cut and _OPEN_TAG.match(text) is not None
    start = None if is_in_tag else _end_of_thoughts(text)
    places: list[_Place] = []
    if start is not None:
        places = _find_choices(text, start, n_items, worst and n_items > 2, is_cut=is_cut)
    if not places:
        return Reading(why_not=_why_not(text, start, reason), text=text)
    logprobs = choice.get("logprobs")
    tokens = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    return Reading(
        places[0].choice,
        places[1].choice if len(places) == 2 else None,  # "same" has no worst
        _probability_at(tokens, text, places[0]) if n_items == 2 else None,
        text=text,
        is_bare=not _BARE.sub("", text[:_LONGEST_BARE]),
    )


def read_phrase(text: object, n_items: int = 2) -> str | None:
    """Read a text that has one choice and nothing else; None if it has anything else.

    >>> read_phrase("Option b"), read_phrase("Left"), read_phrase("tie"), read_phrase("A or B")
    ('B', 'A', 'same', None)
    """
    if not isinstance(text, str):
        return None
    match = _grammar(n_items)["line"].fullmatch(text.translate(_PLAIN_LETTERS))
    return None if match is None else _place(match, "line", 0, n_items).choice


def _text_of_part(part: Any) -> str:
    """Return the text in a part of a message's content; empty for thoughts and all other parts."""
    if isinstance(part, Mapping):
        is_text = part.get("type") in (None, "text", "output_text") and not part.get("thought")
        part = part.get("text") if is_text else None
    return part if isinstance(part, str) else ""


def _end_of_thoughts(content: str) -> int | None:
    """Return the position after the last thought; None if the last thought has no end.

    >>> _end_of_thoughts("A? No.</think>B"), _end_of_thoughts("B"), _end_of_thoughts("<think>A")
    (14, 0, None)
    """
    end: int | None = 0
    for mark in _THOUGHT_MARK.finditer(content):
        end = mark.end() if mark["end"] or mark["end_in_words"] else None
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
        place = "inside the thoughts" if is_empty else "before a whole answer"
        return f"the token limit was reached {place}: raise max_tokens"
    if start is None:
        return "the thoughts of the model have no end: raise max_tokens"
    if is_empty or reason.lower() in _STOPPED:
        return f"the model ended without an answer: {reason or 'no reason was given'}"
    return UNREADABLE


def _find_choices(
    content: str, start: int, n_items: int, worst: bool, *, is_cut: bool
) -> list[_Place]:
    """Find the letter of the best item in an answer, and of the worst item if it was asked for.

    For example, `The first is short. **Best: B**` has the choice B.

    Args:
        content: content of the answer.
        start: position after the thoughts.
        n_items: number of items in question.
        worst: whether the worst of more than two items was asked for, too.
        is_cut: whether the answer was ended early. Then its last line may lack words, and is not
            read. An answer that is only a letter or a JSON object is read nevertheless.

    Returns:
        The places of the choices in the content; empty if there is no choice.
    """
    start = max(start, len(content) - _MOST_READ)
    text = _END_MARK.sub(lambda mark: " " * len(mark[0]), content[start:]).translate(_PLAIN_LETTERS)
    text = text.replace("&gt;", "   >").replace("&lt;", "   <")  # positions stay as they are
    end = None  # end of the whole lines, if the answer was ended early
    if is_cut:
        end = len(text) if _WHOLE.fullmatch(text) else text.rfind("\n") + 1
    if n_items == 2:
        text = _COMPARISON.sub(_keep_better, text)
        place = _clearest(text, n_items, end)
        places = [] if place is None else [place]
    else:
        places = _find_best_and_worst(text, n_items, worst, end)
    choices = [place.choice for place in places]
    are_in_question = {*choices} <= {*PLACES[:n_items]} and len({*choices}) == len(choices)
    if not are_in_question and choices != [SAME]:
        return []
    return [place._replace(at=start + place.at) for place in places]


# {name of a pattern: how clear the choices are that it finds}. A line has only the choice; lines
# with other lines after them may be headings, so that they count less than the last one.
_RANKS = {"json": 5, "last": 4, "mark": 4, "verdict": 4, "line": 3, "so": 2, "colon": 1}
_RANKS_OF_CONCLUSIONS = (4, 2, 1)  # a later choice takes the place of an earlier one
_RANK_AT_LIMIT = 3  # the least rank of a choice with which an answer would end


@lru_cache(maxsize=8)
def _grammar(n_items: int) -> dict[str, re.Pattern[str]]:
    """Compile the patterns of a choice between `n_items` items, and of the names of items.

    The last named group of a match is the choice.
    """
    letters = "ABC" if n_items == 2 else PLACES[:n_items]
    letter = f"[{letters}{letters.lower()}]"
    order = r"(?:first|1st|left|former|second|2nd|right|latter)" if n_items == 2 else r"(?!)"
    # The letter C and its meaning may stand beside each other.
    before_same = r"(?:C[\s(:,–—=-]{1,4})?" if n_items == 2 else ""
    after_same = r"(?:[\s(:,–—=-]{1,4}C(?!\w))?" if n_items == 2 else ""
    in_signs = r"A\s?={1,2}\s?B(?!\w)" if n_items == 2 else r"(?!)"
    choice = rf"""(?:
        (?:(?:the\s)?{_NOUN}[\s\#:*_`"'(\[]{{1,6}}|我?选择?|选项|文本|テキスト)?(?P<letter>{letter})(?!_{{0,2}}{_IN_WORD}|['’]\w)
      | (?:the\s)?{_NOUN}[\s\#]{{1,3}}(?P<number>[12]|one|two)(?!\w|[.,]\d)
      | (?:the\s{{1,3}})?(?:{_NOUN}\s)?(?P<order>{order})(?!\w)
            (?:[\s-]{{1,3}}(?:hand\s)?{_NOUN}(?!\w))?
      | (?P<same>
            {before_same}(?:(?:it(?:['’]s|\sis)|th(?:is|ere)\sis|(?:they|both|all(?:\s\w{{3,4}})?|a\sand\sb)(?:\s{_NOUN}s)?\sare
               |(?:they|we)['’]re)\s)?
            (?:an?\s|the\s|all\s|both\s|about\s|of\s){{0,2}}
            (?:tie|tied|draw|equal(?:ly(?:\s\w{{2,12}})?)?|same|no\sdifference|identical|equivalent
               |unentschieden|gleich\sgut|égalité|empate|ничья|平局|引き分け)
            (?:\squality)?(?:\sbetween\s(?:them|the\stwo|a\sand\sb))?(?!\w){after_same}
            |{in_signs}
        )
    )"""
    patterns = {
        "json": rf"""["'](?:(?:final|my|best|better|preferred|selected)[_ ])?(?:answer|choice|winner
            |verdict|decision|result|selection|selected|chosen|preferred|preference|better|best)
            (?:_{_NOUN})?["']\s{{0,9}}:\s{{0,9}}["']{_DECOR}{choice}(?={_DECOR}["'])""",
        "line": rf"{_DECOR}{choice}{_DECOR}",
        "mark": rf"""(?:\[\[|\\(?:boxed|text)\s?\{{(?:\\\w{{1,10}}\s?\{{)?|(?-i:<[a-z]{{1,20}}>))
            \s{{0,3}}{choice}\s{{0,9}}(?:\]\]|\}}|</)""",
        "verdict": rf"(?<!{_IN_WORD}){_VERDICT}{_BEFORE}{choice}{_BETTER}?{_MARKED_END}",
        "so": rf"(?<![^\W_]){_SO}{_BEFORE}{choice}{_BETTER}?{_END}",
        "colon": rf":{_BEFORE}{choice}{_BETTER}?{_END}",
        # A sentence that begins with "First, ..." has no choice, unless the first "is better".
        "sentence": rf"""\A{_BEFORE}{_I_CHOOSE}{choice}
            (?(order)(?(lead)|{_BETTER})|{_BETTER}?){_END}""",
        "mention": rf"""(?-i:(?<!{_IN_WORD})(?:(?P<letter>[A{letters}]){_NO_ARTICLE}
            |(?i:the|{_NOUN})\s{{1,3}}(?P<word>(?i:{order}|{letter}|[12]))
            |(?i:{_NOUN})\s{{1,3}}(?P<numeral>(?i:one|two)))(?!{_IN_WORD})
            |(?:[,/&]|\b(?:or|and)\b)\s{{0,3}}
             (?P<small>[{letters.lower()[1:]}]|a(?=\W{{0,9}}\Z))(?!\w))""",
    }
    return {name: re.compile(text, re.IGNORECASE | re.VERBOSE) for name, text in patterns.items()}


def _place(match: re.Match[str], name: str, start: int, n_items: int, line: int = 0) -> _Place:
    """Return the place that a pattern has found.

    Args:
        match: match of the pattern, whose last named group is the choice.
        name: name of the pattern.
        start: position in the text at which the match has its position 0.
        n_items: number of items in question.
        line: number of the line.
    """
    group = match.lastgroup or 0
    word = match[group].lower()
    choice = _NAMES.get(word, word.upper())
    is_same = len(choice) > 1 or (n_items == 2 and choice == "C")
    choice = SAME if is_same else choice
    return _Place(_RANKS.get(name, 0), start + match.start(group), choice, line)


def _clearest(text: str, n_items: int, end: int | None = None) -> _Place | None:
    """Find the clearest place of a text that names one choice alone, and the last of these.

    The result is None if places after it, or places as clear in the lines right before it, name
    another choice. Places that draw no conclusion contradict each other in all lines.

    Args:
        text: the text.
        n_items: number of items in question.
        end: end of the lines that are whole, if the text was ended early.

    >>> _clearest("A: 5 words\\nB: 9 words\\nSo B", 2).choice
    'B'
    >>> _clearest("A or B", 2) is None, _clearest("A\\nB", 2) is None
    (True, True)
    """
    places = [*_places(text, n_items)]
    candidates = places
    if end is not None:  # only what an answer would end with
        candidates = [
            place
            for place in places
            if place.rank == _RANKS["json"] or (place.rank >= _RANK_AT_LIMIT and place.at < end)
        ]
    last = max(candidates, default=None)
    if last is None:
        return None
    line = last.line  # the first of the lines right before
    for place in sorted(places, key=lambda place: -place.at):
        is_near = last.rank not in _RANKS_OF_CONCLUSIONS or place.line >= line - 1
        is_equal = place.rank == last.rank and is_near
        if (is_equal or place.at > last.at) and place.choice != last.choice:
            return None
        line = min(line, place.line) if is_equal else line
    return last


def _places(text: str, n_items: int) -> Iterator[_Place]:
    """Yield the places of a text that name one choice alone, but not in their order."""
    grammar = _grammar(n_items)
    for match in grammar["json"].finditer(text):
        yield _place(match, "json", 0, n_items)
    text = grammar["json"].sub(lambda match: " " * len(match[0]), text)
    start = number = 0
    is_after_choice = False
    for line in text.splitlines(keepends=True):
        line_match = grammar["line"].fullmatch(line)
        end = start + len(line)
        if line_match is not None and _DENIAL.search(line) is None:
            is_last = not is_after_choice and _WORD.search(text, end) is None
            yield _place(line_match, "last" if is_last else "line", start, n_items, number)
        else:
            yield from _places_in_line(line, start, n_items, number)
        if _WORD.search(line):
            is_after_choice = line_match is not None
            number += 1
        start = end


def _places_in_line(line: str, start: int, n_items: int, number: int) -> Iterator[_Place]:
    """Yield the places of a line's sentences that name one choice alone.

    Args:
        line: the line.
        start: position of the line in the text.
        n_items: number of items in question.
        number: number of the line.
    """
    grammar = _grammar(n_items)
    for span in _SENTENCE.finditer(line):
        sentence = span[0]
        if _DENIAL.search(sentence):
            continue
        mentions = grammar["mention"].finditer(sentence)
        choices = {_place(mention, "mention", 0, n_items).choice for mention in mentions}
        for name in ("mark", "verdict", "so", "colon", "sentence"):
            for match in grammar[name].finditer(sentence):
                if len(choices) < 2 or match["same"]:
                    yield _place(match, name, start + span.start(), n_items, number)


def _keep_better(comparison: re.Match[str]) -> str:
    """Replace a comparison by its better item, and blanks up to the same length."""
    return (comparison["better"] or "").ljust(len(comparison[0]))


def _find_best_and_worst(
    text: str, n_items: int, worst: bool, end: int | None = None
) -> list[_Place]:
    """Find the best of more than two items, and the worst if it was asked for.

    The text names the two items after the words "best" and "worst", or ranks all items from the
    best to the worst. It may also have two letters only, first the best, then the worst.

    Args:
        text: the text.
        n_items: number of items in question.
        worst: whether the worst was asked for, too.
        end: end of the lines that are whole, if the text was ended early.

    >>> [place.choice for place in _find_best_and_worst("**Best:** B, worst: D.", 4, True)]
    ['B', 'D']
    >>> [place.choice for place in _find_best_and_worst("C > A > D > B", 4, True)]
    ['C', 'B']
    """
    best = _labelled(text[:end], "best", n_items)
    if best is None:
        ranking = _ranking(text, n_items, worst) if end is None else []
        alone = _clearest(text, n_items, end)
        if ranking or alone is None or (worst and alone.choice != SAME):
            return ranking
        return [alone]
    if best.choice == SAME or not worst:
        return [best]
    worst_place = _labelled(text[:end], "worst", n_items)
    return [] if worst_place is None else [best, worst_place]


def _labelled(text: str, word: str, n_items: int) -> _Place | None:
    """Find the choice beside the word "best" or "worst"; None if there is none, or several."""
    for pattern in _LABELS[word]:
        places = [_place(match, word, 0, n_items) for match in pattern.finditer(text)]
        if places:
            last = places[-1]
            # An afterthought may name another item in a sentence.
            for later in _LABELS[word]:
                matches = later.finditer(text, last.at + 1)
                places += [_place(match, word, 0, n_items) for match in matches]
            return last if len({place.choice for place in places}) == 1 else None
    return None


def _ranking(text: str, n_items: int, worst: bool) -> list[_Place]:
    """Find the first and the last item of a ranking of all items, or of a text of two letters.

    The list is empty if there is no ranking, or if several differ; it has only the first item if
    the worst was not asked for.
    """
    rankings: dict[str, list[_Place]] = {}
    for match in _ranking_pattern(n_items).finditer(text):
        first, last = match.span(match.lastgroup or 0)
        letters = [_place(letter, "", 0, n_items) for letter in _LETTER.finditer(text, first, last)]
        is_list = match["list"] or match["lines"]
        if match["up"] or (is_list and _WORST_FIRST.search(text, 0, first)):
            letters.reverse()
        order = "".join(letter.choice for letter in letters)
        is_of_all = sorted(order) == [*PLACES[:n_items]]
        if is_of_all or (match["two"] and worst):
            rankings[order] = [letters[0], letters[-1]] if worst else [letters[0]]
    return next(iter(rankings.values())) if len(rankings) == 1 else []


@lru_cache(maxsize=8)
def _ranking_pattern(n_items: int) -> re.Pattern[str]:
    """Compile the pattern of a ranking: by signs, a list in a line or in lines, or two letters."""
    letter, further = "[A-Fa-f]", n_items - 1
    item = rf"[^\w<>=]{{0,9}}(?:(?i:{_NOUN})\s)?{letter}"
    line = rf"[^\w\n<=>/&]{{0,9}}(?:\d{{1,2}}[^\w\n<=]{{1,6}})?{letter}"
    return re.compile(
        rf"""(?mx)
        (?<!\w)(?<![<>=]\s)(?:
            (?P<down>{letter}(?:[^\w<>=]{{0,9}}>{{1,3}}{item}){{{further}}})
          | (?P<up>{letter}(?:[^\w<>=]{{0,9}}<{{1,3}}{item}){{{further}}})
        )(?!\w|\W{{0,9}}[<>=])
      | ^(?:[^\n:]{{0,60}}:)?[^\w\n]{{0,9}}
        (?P<list>[A-F](?:[^\w\n<=>/&]{{1,9}}[A-F]){{{further}}})[^\w\n]{{0,9}}$
      | ^(?P<lines>{line}(?:[^\w<=>/&]{{0,9}}\n{line}){{{further}}})
        [^\w\n]{{0,9}}$(?!\W{{0,9}}{line}\W{{0,9}}$)
      | \A[\W_]{{0,20}}(?P<two>{letter}[^\w<>=/&]{{1,20}}{letter})[\W_]{{0,20}}\Z"""
    )


def _probability_at(tokens: Any, content: str, place: _Place) -> float | None:
    """Return the probability that the first of two items is better, by the tokens at a place.

    The result is None unless the texts of the tokens fit the content, and the token at the place is
    the choice. Tokens may have the thoughts before the content, or only the content's start.

    Args:
        tokens: tokens with their log-probabilities; any JSON.
        content: content of the answer.
        place: place of the choice.
    """
    token = _token_at(_dicts(tokens), content, place.at)
    if read_phrase(_token_bytes(token).decode("utf-8", "replace")) != place.choice:
        return None
    alternatives = _dicts(token.get("top_logprobs"))[:_MOST_ALTERNATIVES]
    probability_of = {
        _token_bytes(fields): _probability(fields) for fields in (token, *alternatives)
    }
    masses = {"A": 0.0, "B": 0.0, SAME: 0.0}
    for text, probability in probability_of.items():
        # Several tokens may be the same choice, such as "B" and " B".
        choice = read_phrase(text.decode("utf-8", "replace"))
        if choice is not None:
            masses[choice] += probability
    if not masses["A"] or not masses["B"]:
        return None
    return min((masses["A"] + masses[SAME] / 2) / sum(masses.values()), 1.0)


def _dicts(values: Any) -> list[dict[str, Any]]:
    """Return the dicts in a list; empty for any other JSON."""
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )


def _token_at(tokens: Sequence[dict[str, Any]], content: str, position: int) -> dict[str, Any]:
    """Find the token at a position of the content; {} if the tokens are of another text."""
    pieces = [_token_bytes(token) for token in tokens]
    written = b"".join(pieces)
    text = _encoded(content.strip())
    if text in written:  # thoughts may come before the content, and end tokens after it
        start = written.rindex(text)
    elif text.endswith(written.strip()):
        start = len(written) - len(text)
    elif text.startswith(written.strip()):  # the first tokens alone are given
        start = 0
    else:
        return {}
    place = start + len(_encoded(content[:position].lstrip()))
    number = bisect_right([*accumulate(map(len, pieces))], place)
    return tokens[number] if place >= 0 and number < len(tokens) else {}


def _token_bytes(token: Mapping[str, Any]) -> bytes:
    """Return the bytes of a token, which may be a part of a letter, or else its text.

    Some servers give tokens as the vocabulary spells them, with a mark in place of a blank.
    """
    try:
        text = bytes([*token["bytes"]])
    except (KeyError, TypeError, ValueError):
        text = _encoded(str(token.get("token", "")))
    for mark in _BLANKS:
        text = text.replace(mark, _BLANKS[mark])
    return text


def _encoded(text: str) -> bytes:
    """Encode a text that may have half of a surrogate pair."""
    return text.encode("utf-8", "surrogatepass")


def _probability(token: Mapping[str, Any]) -> float:
    """Convert the log-probability of a token to its probability; 0 if it has none."""
    try:
        probability = math.exp(float(token["logprob"]))
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0.0
    # Rounding makes a little more than 1; not a number is not smaller either.
    return min(probability, 1.0) if probability < _MOST_ROUNDED else 0.0
