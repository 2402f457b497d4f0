/**
 * The limits of a run. k6 ends with 99 when one is crossed.
 *
 * k6's summary knows the values of a tag only where a limit names it. Those that are to be shown and not to be limited
 * get a limit that always holds.
 */

import { CAUSES } from "./metrics.js";

/** Limits that always hold, for a metric of times and for a counter. */
const SHOW_TREND = "max>=0";
const SHOW_COUNT = "count>=0";

/**
 * Returns whether an expression is there to be shown only.
 * @param {string} expression
 */
export function isShownOnly(expression) {
  return expression === SHOW_TREND || expression === SHOW_COUNT;
}

/**
 * @param {import("./settings.js").Settings} settings
 * @param {string[]} shown selectors of the first byte to show, such as "burst:on"
 * @returns {Record<string, string[]>}
 */
export function thresholds(settings, shown = []) {
  const firstByte = settings.STREAM ? "stream_first_byte" : "plain_first_byte";
  /** @type {Record<string, string[]>} */
  const limits = {
    [`${firstByte}{phase:measured}`]: [`p(95)<${settings.TTFB_P95_MS}`, `p(99)<${settings.TTFB_P99_MS}`],
    "schedule_lag{phase:measured}": [`p(99)<${settings.LAG_P99_MS}`],
    // A limit on something that never came would hold.
    "answered{phase:measured}": ["count>0"],
    errors: [`rate<=${settings.ERROR_RATE}`],
    refusals: [`rate<=${settings.REFUSAL_RATE}`],
    checks: [`rate>=${1 - settings.ERROR_RATE}`],
    dropped_iterations: ["count==0"],
  };
  for (const selector of shown) limits[`${firstByte}{${selector}}`] = [SHOW_TREND];
  for (const cause of CAUSES) limits[`failures{cause:${cause}}`] = [SHOW_COUNT];
  for (const endpoint of [...settings.ENDPOINTS, "unnamed"]) limits[`by_endpoint{endpoint:${endpoint}}`] = [SHOW_COUNT];
  return limits;
}
