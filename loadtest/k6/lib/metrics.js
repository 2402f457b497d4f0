/**
 * The metrics of a run, beside k6's own.
 *
 * The first byte has two names, because only one of them can be a time to first token: see `streamFirstByte`.
 * Times begin when the script asks, or when it should have asked, so waiting for a connection is in them; k6's
 * `http_req_waiting` is without.
 */

import { Counter, Rate, Trend } from "k6/metrics";

/** First byte of a streamed answer. TTFT behind a gateway that holds the head until the first body byte. */
export const streamFirstByte = new Trend("stream_first_byte", true);
/** First byte of an answer in one piece: about the whole time, never TTFT. */
export const plainFirstByte = new Trend("plain_first_byte", true);
/** Until the last byte. */
export const endToEnd = new Trend("end_to_end", true);
/** How much later than intended a request was sent. */
export const scheduleLag = new Trend("schedule_lag", true);
/** Completion tokens of one answer over its end-to-end seconds. */
export const tokensPerSecond = new Trend("tokens_per_second");

/** Requests that were answered whole. */
export const answered = new Counter("answered");
/** Requests whose client left, as it meant to. */
export const left = new Counter("left");
/** Share of requests that failed. */
export const errors = new Rate("errors");
/** Share of requests that were refused with 429 or 503. */
export const refusals = new Rate("refusals");
/** Failed requests by `cause`, one of `CAUSES`. */
export const failures = new Counter("failures");
/** Responses by `endpoint`. */
export const byEndpoint = new Counter("by_endpoint");

export const promptTokens = new Counter("prompt_tokens");
export const cachedTokens = new Counter("cached_tokens");
export const completionTokens = new Counter("completion_tokens");

/** Why a request failed: no response, none in time, a status, or a body that is not whole. */
export const CAUSES = /** @type {const} */ (["connection", "timeout", "4xx", "5xx", "other status", "body"]);
/** @typedef {typeof CAUSES[number]} Cause */
