"""A server of language models: its address, its key, its connections, and what it accepts."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from sortnet.errors import SortNetError
from sortnet.files import Record
from sortnet.judges.answer_form import AnswerForm
from sortnet.judges.budget import Budget
from sortnet.judges.faults import Failure, Reason
from sortnet.judges.request import request_body
from sortnet.judges.verdicts import Fault, Refused, Unreachable
from sortnet.messages import cut, note, printable

if TYPE_CHECKING:
    import httpx

KEY_VARIABLE = "SORTNET_KEY"  # the environment variable that has a server's key by default
# Numbers of log-probabilities to ask for at each token. If the server refuses a number, the next
# number is used.
TOPS = (10, 5, 0)
LONGEST = 1 << 20  # bytes of the longest answer that is read
_COMPRESSED = ("gzip", "x-gzip", "deflate")
_ANY_HEADER = 47  # for zlib: the header tells which of these encodings is used
_CONNECTIONS = 64  # open connections at the same time
_LONGEST_TEXT = 200  # characters of a server's text in a message
# SortNet leaves these parameters out if a model refuses them.
_MAY_BE_LEFT_OUT = ("temperature", "max_tokens", "max_completion_tokens")
_NAMES_SCHEMA = re.compile(r"response_format|json_schema|schema|structured", re.IGNORECASE)


@dataclass
class Server:
    """A server of language models, shared by all workers."""

    url: str  # root of the server, or an address that ends with `/v1`
    model: str  # name of the model on the server
    key: str | None  # secret key for the header of a call; hidden in every message
    timeout: float  # seconds for a call
    patience: float  # seconds in all for which a call of a busy server is repeated
    budget: Budget
    request: Mapping[str, Any] = field(default_factory=dict)  # parameters that the user gave
    structured: bool = False  # whether answers are asked for by JSON schema
    tops: list[int] = field(default_factory=lambda: [*TOPS])  # as TOPS, without refused numbers
    without: set[str] = field(default_factory=set)  # parameters that the model has refused
    client: Connections | None = None
    has_answered: bool = False  # whether a model has answered at the URL
    is_away: bool = False  # whether a message has told that calls wait for the server

    def __post_init__(self) -> None:
        """Check the URL and that httpx is installed; add the path of chat completions to the URL.

        Raises:
            SortNetError: if the URL cannot be used, or httpx is not installed.
        """
        address = urlsplit(self.url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise SortNetError(f"server {self.url!r} is no http or https URL")
        if address.username or address.password or address.query or address.fragment:
            raise SortNetError("server: give no password, query or fragment in the URL")
        if address.scheme == "http" and not _is_private(address.hostname):
            raise SortNetError(
                f"server {self.url}: without https texts and key can be read on their way: a "
                "server outside of the own network needs https"
            )
        try:
            import httpx  # noqa: F401
        except ImportError:
            raise SortNetError("a language model needs httpx: pip install 'sortnet[llm]'") from None
        path = address.path.rstrip("/").removesuffix("/chat/completions").removesuffix("/v1")
        self.url = f"{address.scheme}://{address.netloc}{path}/v1/chat/completions"

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Keep connections open for several calls."""
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        with Connections(self.url, headers, self.timeout) as self.client:
            yield

    def post(self, body: Record) -> HttpAnswer:
        """Count a call in the budget, send the body of a request, and return the answer.

        Raises:
            Enough: if the budget allows no call.
            Unreachable: if the server cannot be reached.
            Fault: if the answer cannot be taken.
        """
        self.budget.call()
        if self.client is None:
            raise RuntimeError("a call outside of `connected`")
        return self.client.post(body)

    def without_key(self, text: str, longest: int = _LONGEST_TEXT) -> str:
        """Hide the key in a text of the server, and shorten the text to one line of a message."""
        return cut(printable(" ".join(self.hidden(text).split())), longest)

    def hidden(self, text: str) -> str:
        """Replace the key in a text of the server by ***, however the text spells the key."""
        return without_key(text, self.key) if self.key else text

    def body(self, messages: Sequence[Record], form: AnswerForm) -> Record:
        """Make the body of a request, without parameters that the server has refused."""
        response_format = form.response_format if self.structured else None
        return request_body(
            self.model,
            messages,
            self.request,
            response_format=response_format,
            n_tops=self.tops[0],
            without=self.without,
        )

    def note_waiting(self, why: str) -> None:
        """Note why calls wait for the server, once until the server answers again."""
        if not self.is_away:
            self.is_away = True
            note(f"model {self.model}: {why}: waiting for at most {self.patience:g} seconds")

    def leave_out_refused(self, body: Record, failure: Failure, refusal: str) -> bool:
        """Change all later requests so that they avoid what a refusal names.

        A refusal of log-probabilities lowers their number; a refusal of a JSON schema makes later
        requests ask for a letter; a parameter that may be left out is left out.

        Args:
            body: body of the request that was refused.
            failure: the failure of the request.
            refusal: message of the server, in which the key is hidden.

        Returns:
            Whether a new request may succeed, because it avoids what was refused.

        Raises:
            Refused: if the refusal names a parameter that the user gave.
        """
        if failure.status not in (400, 422):
            return False
        if "logprob" in refusal.lower() and "logprobs" in body:
            if self.tops[0] == body["top_logprobs"]:  # no other worker was refused before
                self.tops.pop(0)
            return True
        if failure.reason is not Reason.REFUSED:
            return False
        if "response_format" in body and _NAMES_SCHEMA.search(refusal):
            if self.structured:
                note(f"model {self.model}: the server takes no JSON schema: a letter is asked for")
            self.structured = False
            return True
        for name in self.request:
            if _has_word(refusal, name):
                raise Refused(f"the server does not take {name} of the request: {refusal}")
        refused = {name for name in _MAY_BE_LEFT_OUT if name in body and _has_word(refusal, name)}
        self.without |= refused
        return bool(refused)


def _has_word(text: str, word: str) -> bool:
    """Whether a text has a word as a whole."""
    return re.search(rf"\b{re.escape(word)}\b", text) is not None


# A letter that is escaped as in JSON, Python, URLs or HTML, perhaps several times, or any letter.
_ESCAPED = re.compile(
    r"\\{1,8}(?:u00|x)(?P<json>[0-9a-fA-F]{2})|\\{1,8}u[0-9a-fA-F]{4}|%(?P<url>[0-9a-fA-F]{2})"
    r"|&#x0{0,8}(?P<hex>[0-9a-fA-F]{1,6});|&#0{0,8}(?P<decimal>[0-9]{1,7});|&\w{2,8};"
    r"|(?P<letter>[A-Za-z0-9])"
)


def without_key(text: str, key: str) -> str:
    """Replace a secret key in a text by ***, by its letters and digits alone.

    The letters may be escaped, and other characters may be between them, even if they cannot be
    seen. A key without letters and digits is replaced as it is.

    >>> without_key("Bearer s\\0k\\u002d1, and sk-1.", "sk-1")
    'Bearer ***, and ***.'
    """
    sought = "".join(letter for letter, _ in _letters(key))
    if not sought:
        return text.replace(key, "***")
    letters = _letters(text)
    plain = "".join(letter for letter, _ in letters)
    pieces: list[str] = []
    end = 0  # end of the previous key
    place = plain.find(sought)
    while place >= 0:
        last = place + len(sought) - 1
        pieces += [text[end : letters[place][1].start()], "***"]
        end = letters[last][1].end()
        place = plain.find(sought, last + 1)
    return "".join([*pieces, text[end:]])


def _letters(text: str) -> list[tuple[str, re.Match[str]]]:
    """List the ASCII letters and digits of a text, with the matches of their spellings."""
    letters = []
    for match in _ESCAPED.finditer(text):
        number = match["json"] or match["url"] or match["hex"]
        code = int(number, 16) if number else int(match["decimal"] or 0)
        letter = match["letter"] or (chr(code) if code < 128 else "")
        if letter.isalnum():
            letters.append((letter, match))
    return letters


def _is_private(host: str) -> bool:
    """Whether a host name or address is of this machine or of the own network.

    >>> [_is_private(host) for host in ("localhost", "gpu.local", "10.0.0.7", "::1", "8.8.8.8")]
    [True, True, True, True, False]
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        # A name that begins with a digit may be a public address in another spelling: 0x08080808.
        is_address = host[0].isdigit()
        return not is_address and ("." not in host or host.endswith(".local"))
    if isinstance(address, ipaddress.IPv6Address):
        address = (
            address.ipv4_mapped or address
        )  # some versions of Python take all of these as private
    return address.is_private


class HttpAnswer(NamedTuple):
    """Status, headers and body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connections:
    """Connections to one address, which stay open between calls; any thread may call.

    Args:
        url: address to which every call is sent.
        headers: headers of every call.
        seconds: time for a call. Each step has this time, and so has the whole body.
    """

    def __init__(self, url: str, headers: Mapping[str, str], seconds: float) -> None:
        """Make the transport."""
        import httpx

        self._url = url
        self._seconds = seconds
        self._headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",  # a decoded answer could be a thousand times longer
            **headers,
        }
        # A transport is used because a client of httpx would also follow cookies and redirects.
        limits = httpx.Limits(max_connections=_CONNECTIONS)
        self._transport = httpx.HTTPTransport(limits=limits, trust_env=False)

    def __enter__(self) -> Connections:
        return self

    def __exit__(self, *error: object) -> None:
        self._transport.close()

    def post(self, body: Record) -> HttpAnswer:
        """Send a JSON body and return the answer.

        Raises:
            Unreachable: if the answer is late or no HTTP, or the connection fails.
            Fault: if the answer is too long or encoded. The message of the fault may have a
                whole text of the server, which may contain secrets.
        """
        import httpx

        # A text may have half of a surrogate pair, which UTF-8 cannot encode.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        timeout = httpx.Timeout(self._seconds).as_dict()
        try:
            request = httpx.Request(
                "POST",
                self._url,
                headers=self._headers,
                content=content,
                extensions={"timeout": timeout},
            )
            with closing(self._transport.handle_request(request)) as reply:
                return HttpAnswer(reply.status_code, reply.headers, self._body(reply))
        except httpx.TimeoutException:
            raise Unreachable(f"no answer after {self._seconds:g} seconds") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, zlib.error) as error:
            raise Unreachable(f"{self._url}: {_reason(error)}") from None

    def _body(self, reply: httpx.Response) -> bytes:
        """Read the body of an answer, up to the limits of its time and its length.

        Some proxies compress every answer. A decoder is never given room for more than the limit.
        """
        encoding = reply.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", *_COMPRESSED):
            raise Fault(
                f"an answer that is encoded as {encoding}, unasked: turn compression off at the "
                "server or its proxy"
            )
        decoder = zlib.decompressobj(_ANY_HEADER) if encoding in _COMPRESSED else None
        end = time.monotonic() + self._seconds
        body = b""
        for part in reply.iter_raw():
            body += decoder.decompress(part, LONGEST + 1 - len(body)) if decoder else part
            if len(body) > LONGEST:
                raise Fault(f"an answer of more than {LONGEST:,} bytes")
            if time.monotonic() > end:
                raise Unreachable(f"no answer after {self._seconds:g} seconds")
        return body


def _reason(error: BaseException) -> str:
    """Describe the first cause of an error, which is the most specific.

    The text is "Connection refused", for example, rather than "All attempts failed".
    """
    while earlier := error.__cause__ or error.__context__:
        error = earlier
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
    if isinstance(error, ConnectionRefusedError):
        return "Connection refused (is the server running?)"
    if isinstance(error, ConnectionError) and error.errno is not None:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
