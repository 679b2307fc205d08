// Client for the modelgate gateway. No dependencies: it needs fetch.

const PREFIX = 'x-gateway-';

/** The header that an option in camelCase stands for. */
function headerName(option) {
  return PREFIX + option
    .replace(/^cloud([ABC])(?=[A-Z])/, 'cloud-$1-')
    .replace(/([a-z0-9])([A-Z]+)/g, '$1-$2')
    .replace(/--+/g, '-')
    .toLowerCase();
}

/** A header's name as an option: X-My-Custom-Header is xMyCustomHeader. */
function optionName(header) {
  const words = header.toLowerCase().split('-');
  return words[0] + words.slice(1).map((w) => w.charAt(0).toUpperCase() + w.slice(1)).join('');
}

function text(name, value) {
  const out = typeof value === 'object' ? JSON.stringify(value) : String(value);
  if (/[\r\n]/.test(out)) throw new TypeError(`${name} must be a single line`);
  return out;
}

/** Returns the gateway's headers for options in camelCase. */
export function createHeaders({ forwardHeaders = [], authorization, ...options } = {}) {
  const out = {};
  if (authorization !== undefined) {
    out.authorization = authorization.includes(' ') ? authorization : `Bearer ${authorization}`;
  }
  const forwarded = new Map(forwardHeaders.map((name) => [optionName(name), name]));
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null) continue;
    out[forwarded.get(name) ?? headerName(name)] = text(name, value);
  }
  if (forwardHeaders.length > 0) out[`${PREFIX}forward-headers`] = forwardHeaders.join(',');
  return out;
}

/** An error answer, or an error inside a stream. */
export class ModelgateError extends Error {
  constructor(status, body, headers) {
    super(`${status}: ${body?.error?.message ?? JSON.stringify(body)}`);
    this.name = 'ModelgateError';
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

/** A client of the gateway at baseURL, which ends in /v1. */
export class Modelgate {
  #baseURL;
  #options;

  constructor({ baseURL = 'http://127.0.0.1:8787/v1', ...options } = {}) {
    this.#baseURL = baseURL.replace(/\/+$/, '');
    this.#options = options;
    const route = (path) => ({ create: (body, init) => this.post(path, body, init) });
    this.chat = { completions: route('/chat/completions') };
    this.completions = route('/completions');
    this.embeddings = route('/embeddings');
    this.messages = route('/messages');
    this.responses = route('/responses');
  }

  /** Returns a client with further or other options. */
  withOptions(options) {
    return new Modelgate({ baseURL: this.#baseURL, ...this.#options, ...options });
  }

  /** Sends body to path. The answer is JSON, or an async iterable of it when it is a stream. */
  post(path, body, init) {
    return this.#send(path, { ...init, method: 'POST', body: JSON.stringify(body) });
  }

  /** Asks for path. */
  get(path, init) {
    return this.#send(path, { ...init, method: 'GET' });
  }

  async #send(path, init) {
    const headers = { ...createHeaders(this.#options), 'content-type': 'application/json', ...init.headers };
    const answer = await fetch(this.#baseURL + path, { ...init, headers });
    if (!answer.ok) throw new ModelgateError(answer.status, await parsed(answer), answer.headers);
    if (answer.headers.get('content-type')?.startsWith('text/event-stream')) return events(answer);
    return parsed(answer);
  }
}

async function parsed(answer) {
  const raw = await answer.text();
  try {
    return JSON.parse(raw);
  } catch {
    return raw;
  }
}

async function* events(answer) {
  const decoder = new TextDecoder();
  let rest = '';
  let data = [];
  for await (const piece of answer.body) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
    rest = lines.pop();
    for (const raw of lines) {
      const line = raw.replace(/\r$/, '');
      if (line.startsWith('data:')) {
        data.push(line.slice(5).replace(/^ /, ''));
      } else if (line === '' && data.length > 0) {
        const whole = data.join('\n');
        data = [];
        if (whole === '[DONE]') return;
        const event = JSON.parse(whole);
        if (event?.error) throw new ModelgateError(answer.status, event, answer.headers);
        yield event;
      }
    }
  }
}
