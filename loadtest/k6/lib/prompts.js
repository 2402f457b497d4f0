/**
 * Text to ask with, made of common words.
 *
 * A word counts as about one token; what a server's tokenizer makes of it is in its usage, and so in the summary.
 * Each text begins with the seed and its own number, so that a prefix cache only helps where a script shares a prefix on
 * purpose. The same seed gives the same texts again: a second run with it meets the caches that the first one filled.
 */

import { SharedArray } from "k6/data";
import { generator } from "./random.js";

const WORDS =
  "about after again air all any apple arm ask back ball bank base bird blue boat book box bread bridge bring call car " +
  "cat chair city clear cloud cold cook corn cup dark day deep dish door down draw dry early earth east egg even eye " +
  "face fall farm fast field fire fish floor food foot forest form free fresh full game garden gate glass gold good " +
  "grass gray green group hand hard head heart high hill home horse hot house ice iron island key king lake lamp land " +
  "large late leaf left light line lion list long low map market milk moon morning mountain music name near night " +
  "north note old open paper park part path plain plant point rain red rest rice right river road rock room salt sand " +
  "school sea seed ship shop short side silver sky slow small snow song south spring star step stone store street " +
  "strong summer sun table tall test time town train tree turn under valley voice wall warm watch water way west wheel " +
  "white wide wind window winter wood word work yard year young";
const LEXICON = WORDS.split(" ");

/** @typedef {{role: "system" | "user" | "assistant", content: string}} Message */

/** Texts are put together from paragraphs: drawing each word as a request is due would send it milliseconds late. */
const PARAGRAPH_WORDS = 32;
const PARAGRAPHS = new SharedArray("paragraphs", () =>
  Array.from({ length: 1024 }, (_, index) => {
    const draw = generator(0, "paragraph", index);
    return Array.from({ length: PARAGRAPH_WORDS }, () => LEXICON[Math.floor(draw() * LEXICON.length)]).join(" ");
  }),
);

/**
 * Returns a text of so many words.
 * @param {() => number} draw
 * @param {string} title its first two words
 * @param {number} count
 */
function write(draw, title, count) {
  const parts = [title];
  for (let left = count - 2; left > 0; left -= PARAGRAPH_WORDS) {
    const paragraph = PARAGRAPHS[Math.floor(draw() * PARAGRAPHS.length)] ?? "";
    parts.push(left >= PARAGRAPH_WORDS ? paragraph : paragraph.split(" ", left).join(" "));
  }
  return parts.join(" ");
}

/**
 * Returns a question whose length is even between half and one and a half times the mean.
 * @param {number} seed
 * @param {number} index which question of the run
 * @param {number} meanTokens
 */
export function question(seed, index, meanTokens) {
  const draw = generator(seed, "question", index);
  return write(draw, `Question ${seed}-${index}:`, Math.round(meanTokens * (0.5 + draw())));
}

/**
 * Returns the system prompt of a group, of so many words.
 * @param {number} seed
 * @param {number} group
 * @param {number} tokens
 */
export function systemPrompt(seed, group, tokens) {
  return write(generator(seed, "system", group), `Rules ${seed}-${group}:`, tokens);
}
