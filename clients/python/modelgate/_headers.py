"""The gateway's headers from options in snake_case."""

import json

PREFIX = "x-gateway-"


def headers(*, forward_headers=None, authorization=None, **options):
    """Return the headers for options as a dict.

    ``forward_headers`` lists header names in their own spelling; the value of
    ``X-My-Custom-Header`` is given as ``X_My_Custom_Header``. Options that are
    None are left out. A name that no header can have is a ValueError.
    """
    out = {}
    if authorization is not None:
        out["authorization"] = _bearer(authorization)
    forwarded = {name.replace("-", "_"): name for name in forward_headers or ()}
    for name, value in options.items():
        if value is None:
            continue
        if name in forwarded:
            out[forwarded[name]] = _text(name, value)
        else:
            out[PREFIX + name.lower().replace("_", "-")] = _text(name, value)
    if forward_headers:
        out[PREFIX + "forward-headers"] = ",".join(forward_headers)
    return out


def _bearer(credential):
    return credential if " " in credential else "Bearer " + credential


def _text(name, value):
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, (dict, list)):
        text = json.dumps(value, separators=(",", ":"))
    else:
        text = str(value)
    if "\r" in text or "\n" in text:
        raise ValueError(f"{name} must be a single line")
    return text
