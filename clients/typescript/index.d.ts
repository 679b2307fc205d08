/** Options are the gateway's headers in camelCase. */
export interface Options {
  /** The gateway key. */
  apiKey?: string;
  /** A provider id or @slug. */
  provider?: string;
  virtualKey?: string;
  /** A config object, or the id of a saved one. */
  config?: string | Record<string, unknown>;
  customHost?: string;
  traceId?: string;
  spanId?: string;
  parentSpanId?: string;
  spanName?: string;
  metadata?: Record<string, string>;
  /** Milliseconds until the end of the response. */
  requestTimeout?: number;
  /** Milliseconds for one attempt, until its response is usable. */
  attemptTimeout?: number;
  cacheNamespace?: string;
  cacheForceRefresh?: boolean;
  strictVendoraCompliance?: boolean;
  debug?: boolean;
  /** Names of headers to pass on, in their own spelling; X-My-Custom-Header is given as xMyCustomHeader. */
  forwardHeaders?: string[];
  /** The provider's own credential. */
  authorization?: string;
  /** Any other header x-gateway-…, or a forwarded header. */
  [option: string]: unknown;
}

/** Returns the gateway's headers, to be given to another client. */
export function createHeaders(options?: Options): Record<string, string>;

/** An error answer, or an error inside a stream. */
export class ModelgateError extends Error {
  readonly status: number;
  readonly body: unknown;
  readonly headers: Headers;
}

type Body = Record<string, unknown>;
interface Route {
  /** With stream: true the result is an async iterable of events. */
  create(body: Body & { stream: true }, init?: RequestInit): Promise<AsyncIterable<any>>;
  create(body: Body, init?: RequestInit): Promise<any>;
}

/** A client of the gateway at baseURL, which ends in /v1. */
export class Modelgate {
  constructor(options?: Options & { baseURL?: string });
  readonly chat: { completions: Route };
  readonly completions: Route;
  readonly embeddings: Route;
  readonly messages: Route;
  readonly responses: Route;
  /** Returns a client with further or other options. */
  withOptions(options: Options): Modelgate;
  post(path: string, body: unknown, init?: RequestInit): Promise<any>;
  get(path: string, init?: RequestInit): Promise<any>;
}
