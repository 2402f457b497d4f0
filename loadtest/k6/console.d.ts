// k6 has a console, but its types leave it to those of a browser, which would let through much that k6 has not.
declare const console: { info(message: string): void; warn(message: string): void };
