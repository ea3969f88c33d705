"""Whose fault a server's answer is, in the words of many servers."""

from __future__ import annotations

import json

import pytest

from sortnet.judges.faults import error_message, failure_in

# (status, body, reason of a question's fault or whose fault it is otherwise)
ANSWERS = [
    (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 4097 tokens. However, your messages resulted in 5000 tokens.",
                "code": "context_length_exceeded",
            }
        },
        "too long",
    ),
    (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 210000 tokens > 200000 maximum",
            },
        },
        "too long",
    ),
    (
        413,
        {
            "type": "error",
            "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"},
        },
        "too long",
    ),
    (
        400,
        {
            "error": {
                "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
                "code": "content_filter",
                "status": 400,
                "innererror": {
                    "code": "ResponsibleAIPolicyViolation",
                    "content_filter_result": {"hate": {"filtered": True, "severity": "high"}},
                },
            }
        },
        "filtered",
    ),
    (
        400,
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            "type": "invalid_request_error",
        },
        "too long",
    ),
    (
        422,
        {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "string_too_long",
                        "loc": ["body"],
                        "msg": "String should have at most 100 characters",
                    }
                ]
            },
        },
        "too long",
    ),
    (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        "too long",
    ),
    (200, {"promptFeedback": {"blockReason": "SAFETY"}}, "filtered"),
    (200, {"choices": [], "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "filtered"),
    (200, {"choices": [{"finish_reason": "SAFETY", "message": {"content": None}}]}, "filtered"),
    (
        200,
        {"choices": [{"finish_reason": "content_filter: PROHIBITED_CONTENT", "message": {}}]},
        "filtered",
    ),
    (
        200,
        {
            "choices": [
                {"finish_reason": "stop", "message": {"content": None, "refusal": "I can't help"}}
            ]
        },
        "filtered",
    ),
    (
        403,
        {
            "error": {
                "code": 403,
                "message": "Input was flagged",
                "metadata": {"reasons": ["violence"], "flagged_input": "..", "provider_name": "x"},
            }
        },
        "filtered",
    ),
    (
        403,
        {
            "error": {
                "code": 403,
                "message": 'openai/gpt requires moderation on OpenAI. Your input was flagged for "sexual".',
            }
        },
        "filtered",
    ),
    (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": json.dumps(
                        {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}
                    ),
                    "provider_name": "Anthropic",
                },
            }
        },
        "too long",
    ),
    (
        200,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": '{"error":{"message":"The input (5000 tokens) is longer than the model\'s context length (4096 tokens)."}}'
                },
            }
        },
        "too long",
    ),
    (
        200,
        {
            "choices": [
                {
                    "error": {"code": 502, "message": "Upstream error"},
                    "finish_reason": "error",
                    "message": {"content": ""},
                }
            ]
        },
        "SERVER",
    ),
    (
        200,
        {
            "choices": [
                {
                    "error": {"code": 400, "message": "content_filter"},
                    "finish_reason": "error",
                    "message": {"content": ""},
                }
            ]
        },
        "filtered",
    ),
    (
        200,
        {"error": {"code": 429, "message": "Rate limit exceeded: free-models-per-min"}},
        "SERVER",
    ),
    (200, {"error": {"message": "Internal server error"}}, "SERVER"),
    (200, {"error": "boom"}, "SERVER"),
    (200, {"choices": []}, "SERVER"),
    (200, {"choices": None}, "ADDRESS"),
    (200, {"headers": {}}, "ADDRESS"),
    (200, {"error": {"code": 401, "message": "no auth"}}, "USER"),
    (
        429,
        {
            "error": {
                "message": "You exceeded your current quota, please check your plan and billing details.",
                "type": "insufficient_quota",
                "code": "insufficient_quota",
            }
        },
        "USER",
    ),
    (
        429,
        [
            {
                "error": {
                    "code": 429,
                    "message": "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: x, limit: 15 Please retry in 34.07s.",
                    "status": "RESOURCE_EXHAUSTED",
                }
            }
        ],
        "SERVER",
    ),
    (
        429,
        {
            "error": {
                "message": "Request too large for gpt-4 in organization org on tokens per min (TPM): Limit 10000, Requested 12000. The input or output tokens must be reduced in order to run successfully.",
                "code": "rate_limit_exceeded",
            }
        },
        "too long",
    ),
    (
        429,
        {
            "error": {
                "message": "Rate limit reached for gpt-4 on tokens per min (TPM): Limit 10000, Used 9000, Requested 2000.",
                "code": "rate_limit_exceeded",
            }
        },
        "SERVER",
    ),
    (
        413,
        {
            "error": {
                "message": "Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 8000, please reduce your message size and try again.",
                "type": "tokens",
                "code": "rate_limit_exceeded",
            }
        },
        "too long",
    ),
    (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API.",
            },
        },
        "USER",
    ),
    (402, {"error": {"message": "Insufficient Balance"}}, "USER"),
    (
        400,
        {
            "error": {
                "message": "the request exceeds the available context size. try increasing the context size or enable context shift",
                "code": 400,
                "type": "exceed_context_size_error",
                "n_ctx": 512,
            }
        },
        "too long",
    ),
    (
        500,
        {
            "error": {
                "message": "the request exceeds the available context size.",
                "code": 500,
                "type": "server_error",
            }
        },
        "too long",
    ),
    (
        500,
        {
            "error": {
                "message": "input is too large to process. increase the physical batch size",
                "code": 500,
            }
        },
        "too long",
    ),
    (500, {"error": "the input length exceeds the context length"}, "too long"),
    (500, {"error": "context deadline exceeded"}, "SERVER"),
    (503, {"error": {"message": "Loading model", "code": 503}}, "SERVER"),
    (529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}, "SERVER"),
    (
        400,
        {
            "error": "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."
        },
        "too long",
    ),
    (
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 256 `max_new_tokens`",
            "error_type": "validation",
        },
        "too long",
    ),
    (
        422,
        {
            "error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 1100",
            "error_type": "validation",
        },
        "too long",
    ),
    (
        400,
        {
            "error": {
                "message": "Please reduce the length of the messages or completion.",
                "code": "context_length_exceeded",
            }
        },
        "too long",
    ),
    (
        400,
        {
            "error": {
                "message": "This model's maximum prompt length is 131072 but the request contains 200000 tokens."
            }
        },
        "too long",
    ),
    (400, {"message": "Input is too long for requested model."}, "too long"),
    (
        400,
        {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081"},
        "too long",
    ),
    (
        400,
        {
            "error": {
                "code": "data_inspection_failed",
                "message": "Input data may contain inappropriate content.",
            }
        },
        "filtered",
    ),
    (
        400,
        {
            "error": {
                "message": "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
                "code": "invalid_prompt",
            }
        },
        "filtered",
    ),
    (
        400,
        {
            "error": {
                "message": "API key not valid. Please pass a valid API key.",
                "status": "INVALID_ARGUMENT",
            }
        },
        "USER",
    ),
    (400, {"error": {"message": "Model Not Exist"}}, "USER"),
    (400, {"message": "Invalid model: foo", "type": "invalid_model"}, "USER"),
    (404, {"error": {"message": "The model `x` does not exist"}}, "USER"),
    (
        400,
        {
            "error": {
                "message": "Unsupported parameter: 'temperature' is not supported with this model."
            }
        },
        "refused",
    ),
    (
        400,
        {
            "error": {
                "message": "max_tokens is too large: 256. This model supports at most 128 completion tokens, whereas you provided 256."
            }
        },
        "refused",
    ),
    (
        400,
        {
            "error": {
                "message": "'max_tokens' is too large: 256. This model's maximum context length is 99 tokens"
            }
        },
        "too long",
    ),
    (
        400,
        {"error": {"message": "Invalid value for 'top_logprobs': must be less than or equal to 5"}},
        "refused",
    ),
    (
        422,
        {
            "detail": [
                {
                    "loc": ["body", "top_logprobs"],
                    "msg": "extra fields not permitted",
                    "input": {"messages": "the prompt is too long"},
                }
            ]
        },
        "refused",
    ),
    (500, {"error": {"message": "Internal Server Error"}}, "SERVER"),
    (504, "<html>Gateway Time-out</html>", "SERVER"),
    (408, {"error": "Request timeout"}, "SERVER"),
    (502, {"error": {"message": "rate limit exceeded for tokens"}}, "SERVER"),
    (403, {"error": {"message": "You don't have permission to access this model"}}, "USER"),
    (401, {"error": {"message": "Incorrect API key provided"}}, "USER"),
    (
        400,
        {
            "error": {
                "message": "The request was rejected because it was considered high risk",
                "type": "content_filter",
            }
        },
        "filtered",
    ),
    (200, {"choices": [{"finish_reason": "length", "message": {"content": ""}}]}, None),
    (500, {"error": {"message": "The response was filtered due to content policy"}}, "filtered"),
]


@pytest.mark.parametrize(("status", "body", "expected"), ANSWERS)
def test_the_fault_is_that_of_the_server_the_question_or_the_user(status, body, expected):
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    failure = failure_in(status, raw)
    if expected is None:
        assert failure is None
    else:
        assert failure is not None and failure.message
        assert expected == (failure.reason.value if failure.reason else failure.whose.name)


def test_the_words_of_the_provider_behind_a_gateway_are_told():
    raw = json.dumps({"error": {"message": "prompt is too long"}})
    error = {"message": "Provider returned error", "metadata": {"raw": raw}}
    message = error_message(json.dumps({"error": error}).encode())
    assert message == "Provider returned error: prompt is too long"
