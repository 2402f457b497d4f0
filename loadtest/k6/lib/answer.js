/**
 * What a response body says: text, usage, and whether it is whole.
 *
 * k6 has no events: a stream is read when it has ended, so its gaps cannot be seen here. A stream that broke still has
 * status 200; it shows by an error event, by the missing `data: [DONE]`, or as a failed connection.
 *
 * Events are searched, not parsed one by one: thousands of them a second would leave k6 no time to send.
 */

/**
 * @typedef {object} Usage
 * @property {number} prompt tokens
 * @property {number} cached tokens of the prompt that were in a cache; 0 if the server does not say
 * @property {number} completion tokens
 */

/**
 * @typedef {object} Answer
 * @property {() => string} readText joins what the events say; costly for a long stream
 * @property {Usage | null} usage
 * @property {string | null} problem why it is not whole
 */

/**
 * Reads the body of a response with status 200.
 * @param {unknown} body
 * @param {boolean} streamed
 * @returns {Answer}
 */
export function readAnswer(body, streamed) {
  const text = typeof body === "string" ? body : "";
  return streamed ? readStream(text) : readWhole(text);
}

/**
 * @param {string} body
 * @returns {Answer}
 */
function readWhole(body) {
  const parsed = parse(body);
  const choice = parsed?.choices?.[0];
  let problem = null;
  if (parsed === null) problem = "is not JSON";
  else if (parsed.error) problem = "is an error";
  else if (!choice?.finish_reason) problem = "has no finish_reason";
  return { readText: () => choice?.message?.content ?? choice?.text ?? "", usage: readUsage(parsed?.usage), problem };
}

/**
 * @param {string} body
 * @returns {Answer}
 */
function readStream(body) {
  let problem = null;
  if (lastEventWith(body, "error")?.error) problem = "has an error event";
  else if (!body.trimEnd().endsWith("[DONE]")) problem = "does not end with data: [DONE]";
  else if (!/"finish_reason": ?"/.test(body)) problem = "has no finish_reason";
  return { readText: () => joinEvents(body), usage: readUsage(lastEventWith(body, "usage")?.usage), problem };
}

/**
 * Returns the last event with a key, or null. Text of an answer cannot be taken for a key: its quotes are escaped.
 * @param {string} body
 * @param {string} key
 */
function lastEventWith(body, key) {
  const at = body.lastIndexOf(`"${key}":`);
  if (at < 0) return null;
  const end = body.indexOf("\n", at);
  return readEvent(body.slice(body.lastIndexOf("\n", at) + 1, end < 0 ? body.length : end));
}

/** @param {string} body */
function joinEvents(body) {
  let text = "";
  for (const line of body.split("\n")) {
    const choice = readEvent(line)?.choices?.[0];
    text += choice?.delta?.content ?? choice?.text ?? "";
  }
  return text;
}

/** @param {string} line */
function readEvent(line) {
  return line.startsWith("data:") ? parse(line.slice("data:".length)) : null;
}

/**
 * @param {any} usage as the server sent it
 * @returns {Usage | null}
 */
function readUsage(usage) {
  if (typeof usage?.completion_tokens !== "number") return null;
  const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
  return { prompt: usage.prompt_tokens ?? 0, cached, completion: usage.completion_tokens };
}

/**
 * Returns a JSON object, or null for what is none.
 * @param {string} text
 * @returns {any}
 */
export function parse(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
