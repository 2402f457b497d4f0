/**
 * What a run is asked to do: environment variables, read once, all problems told together.
 *
 * k6 hands scripts the `-e NAME=value` of its command line and the environment alike, so a name that is mistyped cannot
 * be told from one that is meant for another program: it is ignored, and the line printed at the start shows the default.
 */

const SECOND_MS = 1000;
const UNITS_MS = { ms: 1, s: SECOND_MS, m: 60 * SECOND_MS, h: 3600 * SECOND_MS };

/**
 * @typedef {object} Settings
 * @property {string} BASE address of the gateway, without /v1
 * @property {string} MODEL name asked for
 * @property {string} API_KEY sent as bearer token; empty: none
 * @property {number} SEED decides prompts, send times and draws
 * @property {number} RATE requests per second, the mean where it varies
 * @property {number} DURATION_MS measured time, after the warm-up
 * @property {number} WARMUP_MS time before that, with the same load, kept out of the limits on time
 * @property {number} USERS virtual users kept ready; 0: as many as the script thinks right
 * @property {number} PROMPT_TOKENS mean words of a question
 * @property {number} MAX_TOKENS most tokens of an answer
 * @property {boolean} STREAM whether answers are streamed
 * @property {number} TIMEOUT_MS after which a request counts as failed
 * @property {number} TTFB_P95_MS limit
 * @property {number} TTFB_P99_MS limit
 * @property {number} ERROR_RATE limit, 0 to 1
 * @property {number} REFUSAL_RATE limit, 0 to 1
 * @property {number} LAG_P99_MS limit on how late requests are sent
 * @property {string} SUMMARY file for the result as JSON; empty: none
 * @property {string} ENDPOINT_HEADER response header that names the endpoint
 * @property {string[]} ENDPOINTS its values to show in the summary
 * @property {number} BURST rate within bursts over the rate between them
 * @property {number} ON_MS length of a burst
 * @property {number} OFF_MS time between bursts
 * @property {number} GROUPS system prompts
 * @property {number} ZIPF exponent of popularity; 0: all alike
 * @property {number} PREFIX_TOKENS words of a system prompt
 * @property {number} TURNS mean turns of a conversation
 * @property {number} THINK_MS mean time between an answer and the next question
 * @property {string} SESSION_HEADER request header for the conversation's id
 * @property {string[]} ADAPTERS names of LoRA adapters, the most popular first
 * @property {number} LEAVE_SHARE share of clients that leave, 0 to 1
 * @property {number} LEAVE_AFTER_MS when they do
 * @property {number} LARGE_SHARE share of requests with a large body, 0 to 1
 * @property {number} LARGE_BYTES size of such a body
 */

/** Defaults as they would be typed. Scripts replace some; README.md lists all. */
const DEFAULTS = {
  BASE: "http://127.0.0.1:8080",
  MODEL: "demo-8b",
  API_KEY: "",
  SEED: "1",
  RATE: "5",
  DURATION: "1m",
  WARMUP: "5s",
  USERS: "0",
  PROMPT_TOKENS: "200",
  MAX_TOKENS: "64",
  STREAM: "true",
  TIMEOUT: "2m",
  TTFB_P95_MS: "2000",
  TTFB_P99_MS: "5000",
  ERROR_RATE: "0.01",
  REFUSAL_RATE: "0.01",
  LAG_P99_MS: "5",
  SUMMARY: "",
  ENDPOINT_HEADER: "x-sim-replica",
  ENDPOINTS: "",
  BURST: "5",
  ON: "8s",
  OFF: "24s",
  GROUPS: "20",
  ZIPF: "1",
  PREFIX_TOKENS: "2000",
  TURNS: "4",
  THINK: "5s",
  SESSION_HEADER: "x-session-id",
  ADAPTERS: "demo-sql,demo-support",
  LEAVE_SHARE: "0.05",
  LEAVE_AFTER: "200ms",
  LARGE_SHARE: "0.02",
  LARGE_BYTES: "2097152",
};

/** @typedef {keyof typeof DEFAULTS} Name */

/**
 * Reads the environment. Throws one error that names every bad value, before k6 sends anything.
 * @param {Record<string, string | undefined>} env
 * @param {Partial<Record<Name, string>>} defaults those of the script that differ
 * @returns {Settings}
 */
export function readSettings(env, defaults = {}) {
  /** @type {string[]} */
  const problems = [];
  const typed = (/** @type {Name} */ name) => (env[name] ?? defaults[name] ?? DEFAULTS[name]).trim();
  const refuse = (/** @type {Name} */ name, /** @type {string} */ wanted) => {
    problems.push(`${name} must be ${wanted}, not ${JSON.stringify(typed(name))}`);
  };

  const matching = (/** @type {Name} */ name, /** @type {RegExp} */ form, /** @type {string} */ wanted) => {
    if (!form.test(typed(name))) refuse(name, wanted);
    return typed(name);
  };
  const number = (/** @type {Name} */ name, /** @type {number} */ least, /** @type {number} */ most) => {
    const value = Number(typed(name));
    if (typed(name) === "" || !(value >= least && value <= most)) refuse(name, `a number from ${least} to ${most}`);
    return value;
  };
  const whole = (/** @type {Name} */ name, /** @type {number} */ least, /** @type {number} */ most) => {
    const value = Number(typed(name));
    const fits = typed(name) !== "" && Number.isInteger(value) && value >= least && value <= most;
    if (!fits) refuse(name, `a whole number from ${least} to ${most}`);
    return value;
  };
  const duration = (/** @type {Name} */ name, /** @type {number} */ leastMs) => {
    const ms = parseDurationMs(typed(name));
    if (!(ms >= leastMs)) refuse(name, `a time such as 500ms, 30s, 5m or 1h30m, of at least ${leastMs} ms`);
    return ms;
  };
  const list = (/** @type {Name} */ name, /** @type {number} */ least) => {
    const names = typed(name) === "" ? [] : typed(name).split(",").map((item) => item.trim());
    const odd = names.length < least || names.some((item) => !/^[^\s{}"]+$/.test(item));
    if (odd || new Set(names).size < names.length) refuse(name, "different names with commas between them");
    return names;
  };

  const settings = {
    BASE: matching("BASE", /^https?:\/\/[^\s/]+(\/\S*)?(?<!\/v1\/?)$/, "an http:// or https:// address without /v1").replace(/\/+$/, ""),
    MODEL: matching("MODEL", /^\S+$/, "the name of a model"),
    API_KEY: matching("API_KEY", /^[\x21-\x7e]*$/, "a key without spaces"),
    SEED: whole("SEED", 0, 2 ** 31),
    RATE: number("RATE", 0.01, 10_000),
    DURATION_MS: duration("DURATION", SECOND_MS),
    WARMUP_MS: duration("WARMUP", 0),
    USERS: whole("USERS", 0, 20_000),
    PROMPT_TOKENS: whole("PROMPT_TOKENS", 1, 200_000),
    MAX_TOKENS: whole("MAX_TOKENS", 1, 200_000),
    STREAM: matching("STREAM", /^(true|false)$/, "true or false") === "true",
    TIMEOUT_MS: duration("TIMEOUT", 100),
    TTFB_P95_MS: number("TTFB_P95_MS", 0, 1e9),
    TTFB_P99_MS: number("TTFB_P99_MS", 0, 1e9),
    ERROR_RATE: number("ERROR_RATE", 0, 1),
    REFUSAL_RATE: number("REFUSAL_RATE", 0, 1),
    LAG_P99_MS: number("LAG_P99_MS", 0, 1e9),
    SUMMARY: typed("SUMMARY"),
    ENDPOINT_HEADER: matching("ENDPOINT_HEADER", /^[\w-]+$/, "the name of a header"),
    ENDPOINTS: list("ENDPOINTS", 0),
    BURST: number("BURST", 1, 1000),
    ON_MS: duration("ON", 100),
    OFF_MS: duration("OFF", 100),
    GROUPS: whole("GROUPS", 1, 10_000),
    ZIPF: number("ZIPF", 0, 10),
    PREFIX_TOKENS: whole("PREFIX_TOKENS", 1, 200_000),
    TURNS: number("TURNS", 1, 100),
    THINK_MS: duration("THINK", 0),
    SESSION_HEADER: matching("SESSION_HEADER", /^[\w-]+$/, "the name of a header"),
    ADAPTERS: list("ADAPTERS", 1),
    LEAVE_SHARE: number("LEAVE_SHARE", 0, 1),
    LEAVE_AFTER_MS: duration("LEAVE_AFTER", 1),
    LARGE_SHARE: number("LARGE_SHARE", 0, 1),
    LARGE_BYTES: whole("LARGE_BYTES", 1, 64 * 1024 * 1024),
  };
  if (settings.LEAVE_SHARE + settings.LARGE_SHARE > 1) problems.push("LEAVE_SHARE and LARGE_SHARE must add up to 1 or less");
  if (problems.length > 0) throw new Error(`nothing was sent, the settings are wrong: ${problems.join("; ")}`);
  return settings;
}

/**
 * Returns the settings as one line for the log, without the key.
 * @param {Settings} settings
 */
export function describe(settings) {
  return Object.entries(withoutKey(settings))
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

/**
 * Returns the settings without the key, for what is printed or kept.
 * @param {Settings} settings
 */
export function withoutKey(settings) {
  return { ...settings, API_KEY: settings.API_KEY === "" ? "" : "(set)" };
}

/**
 * Returns milliseconds, or NaN for what is not a time.
 * @param {string} text
 */
function parseDurationMs(text) {
  if (text === "0") return 0;
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(text)) return NaN;
  let ms = 0;
  for (const [, count, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)) {
    ms += Number(count) * UNITS_MS[/** @type {keyof typeof UNITS_MS} */ (unit)];
  }
  return ms;
}
