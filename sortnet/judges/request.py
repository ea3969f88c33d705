"""Parameters that a user adds to every request to a language model, such as `temperature`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sortnet.errors import SortNetError
from sortnet.files import Record, shown

_LIMITS = ("max_tokens", "max_completion_tokens")  # servers know the limit by either name
_MOST_TOKENS = 256  # most tokens of an answer, unless the user sets a limit
LONGEST = 1000  # most characters of a request as JSON: the request is stored with every answer
# A user cannot give these parameters, because SortNet sets them; the texts say what to do instead.
_SET_BY_SORTNET = {
    "model": "the name of the model has an argument of its own",
    "messages": "the messages are made from the prompt, which can be a file",
    "logprobs": "log-probabilities are asked for wherever the server gives them; false: never",
    "top_logprobs": "log-probabilities are asked for wherever the server gives them",
    "response_format": "an answer by JSON schema is asked for by `structured`",
    "stream": "an answer is read as a whole",
    "n": "one answer to a question is read",
}
# A model with another value of these parameters is still the same judge. They change no answer, or
# only decide which of the possible answers is drawn.
_NOT_OF_JUDGE = frozenset(
    (
        *("seed", "user", "metadata", "store", "service_tier", "safety_identifier"),
        *("prompt_cache_key", "prompt_cache_retention", "max_tokens", "max_completion_tokens"),
    )
)
# A parameter whose name ends with one of these words is refused.
_SECRET_NAMES = (
    *("apikey", "token", "authorization", "password", "passphrase", "secret", "secretkey"),
    *("accesskey", "privatekey", "credential", "credentials", "cookie", "bearer"),
)
_KEY_ELSEWHERE = "and a request is stored: a key is given by an environment variable"
_NAME = re.compile(r'"([^"]*)":')  # in JSON without escapes
# This matches keys of known providers, headers with a key, tokens (JWT), and private keys.
_SECRET = re.compile(
    r"\b(?:sk|rk)-[\w-]{6,}|\bBearer\s+\S+|\b(?:hf|gsk|gh[pousr]|github_pat|xai)_\w{8,}"
    r"|\bAKIA[0-9A-Z]{12,}|\bAIza[\w-]{10,}|\bxox[a-z]-[\w-]{6,}|\beyJ[\w-]+\.[\w-]+\.[\w-]*"
    r"|-----BEGIN"
)
# Characters that cannot be seen and may stand within a key.
_INVISIBLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)


def check_request(request: object) -> Record:
    """Return a copy of a user's parameters, or raise if they cannot be sent and stored.

    Raises:
        SortNetError: on a value that is no JSON object, a parameter that SortNet sets, a
            temperature that is no number from 0, or a text that looks like a secret.

    >>> check_request({"temperature": 0.5})
    {'temperature': 0.5}
    """
    if not isinstance(request, Mapping):
        raise SortNetError(f"request: {shown(request)} is no dict of parameters")
    try:
        text = json.dumps(request, allow_nan=False)
        _refuse_secrets(json.dumps(request, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        raise SortNetError("request: it is no JSON") from None
    for name, instead in _SET_BY_SORTNET.items():
        only_turns_logprobs_off = name == "logprobs" and request.get(name) is False
        if name in request and not only_turns_logprobs_off:
            raise SortNetError(f"request: {name} is set by SortNet: {instead}")
    if len(text) > LONGEST:
        raise SortNetError(
            f"request: {len(text):,} characters, which are stored with every answer: {LONGEST:,} "
            "at most"
        )
    copy: Record = json.loads(text)
    temperature = copy.get("temperature")
    is_number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if temperature is not None and (not is_number or temperature < 0):
        raise SortNetError(f"request: a temperature of {shown(temperature)} is no number from 0")
    return copy


def request_body(
    model: str,
    messages: Sequence[Record],
    request: Mapping[str, Any],
    *,
    response_format: Record | None = None,
    n_tops: int,
    without: Collection[str] = (),
) -> Record:
    """Make the body of a request from SortNet's parameters and the user's parameters.

    If the user sets a parameter to None, it is left out, even if SortNet would set it.

    Args:
        model: name of the model on the server.
        messages: messages of the prompt.
        request: parameters of the user, which replace SortNet's parameters.
        response_format: value of the parameter that makes the model answer JSON; None: the model
            answers with a text.
        n_tops: number of log-probabilities to ask for at each token; 0: none are asked for.
        without: SortNet's parameters that are left out, because the server has refused them.
    """
    body: Record = {"model": model, "messages": messages}
    if "temperature" not in without:
        body["temperature"] = 0
    # Some models refuse the limit by its old name, `max_tokens`.
    limit = "max_completion_tokens" if "max_tokens" in without else "max_tokens"
    user_sets_limit = not request.keys().isdisjoint(_LIMITS)
    if limit not in without and not user_sets_limit:
        body[limit] = _MOST_TOKENS
    if n_tops and "logprobs" not in request:  # a user can only turn log-probabilities off
        body |= {"logprobs": True, "top_logprobs": n_tops}
    if response_format is not None:
        body["response_format"] = response_format
    body |= {name: value for name, value in request.items() if name != "logprobs"}
    return {name: value for name, value in body.items() if value is not None}


def part_of_judge(request: Mapping[str, Any]) -> Record:
    """Select the parameters that belong to the identity of a judge, in the order of their names.

    A model with another temperature is another judge. A model with another limit, seed or parameter
    of bookkeeping is the same judge.

    >>> part_of_judge({"temperature": 0.7, "seed": 3, "user": "team-1"})
    {'temperature': 0.7}
    """
    return {name: request[name] for name in sorted(request) if name not in _NOT_OF_JUDGE}


def has_secret(text: str) -> bool:
    """Whether a text has a part that looks like a secret key.

    >>> has_secret("sk-abcdef123456"), has_secret("a risk-averse answer")
    (True, False)
    """
    return _SECRET.search(text) is not None


def without_secrets(text: str) -> str:
    """Replace every part of a text that looks like a secret key by ***.

    >>> without_secrets("Incorrect API key: sk-abcdef123456.")
    'Incorrect API key: ***.'
    """
    visible = _INVISIBLE.sub("", text)
    return _SECRET.sub("***", visible) if _SECRET.search(visible) else text


def _refuse_secrets(text: str) -> None:
    """Raise SortNetError if a name or a text in the JSON of a request looks like a secret.

    The message does not show the text.
    """
    text = re.sub(r"\\.", " ", text)  # an escape could hide where a secret begins
    for name in _NAME.findall(text):
        if re.sub("[^a-z0-9]", "", name.lower()).endswith(_SECRET_NAMES):
            raise SortNetError(
                f"request: {shown(without_secrets(name))} looks like a secret, {_KEY_ELSEWHERE}"
            )
    if has_secret(text):
        raise SortNetError(f"request: a text in it looks like a secret, {_KEY_ELSEWHERE}")
