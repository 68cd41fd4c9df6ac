/** Text with line numbers, and syntax highlighting for Python. */
import { useMemo } from "react";
import classes from "./Code.module.css";
import { splitLines, type Token, tokenize } from "./python";

export function CodeText({ path, text }: { path: string; text: string }) {
  const lines = useMemo(() => {
    const tokens: Token[] = path.endsWith(".py") ? tokenize(text) : [{ text }];
    return splitLines(tokens);
  }, [path, text]);
  return (
    // Focusable, so that it can be scrolled with the keyboard.
    <section aria-label={`Contents of ${path}`} tabIndex={0} className={classes.text}>
      <pre>
        <code>
          {lines.map((line, number) => (
            <span key={number} className={classes.line}>
              {line.map((token, index) =>
                token.kind ? (
                  <span key={index} className={classes[token.kind]}>
                    {token.text}
                  </span>
                ) : (
                  token.text
                ),
              )}
              {"\n"}
            </span>
          ))}
        </code>
      </pre>
    </section>
  );
}
