"""Talk to a modelgate gateway.

Two ways, and neither needs another package:

* ``headers(...)`` makes the gateway's headers, to be given to any client of a
  model provider as its default headers.
* ``Modelgate(...)`` is a small client of its own.

Options are the gateway's headers in snake_case: ``config`` is a config object
or the id of a saved one, ``provider`` a provider id or ``@slug``, ``api_key``
the gateway key, ``metadata`` a dict of strings, and so on for every header
``x-gateway-...``. ``authorization`` is the provider's own credential.
"""

from ._client import Modelgate, ModelgateError
from ._headers import headers

__all__ = ["Modelgate", "ModelgateError", "headers"]
