/** A text with the numbers of its lines; Python with its words told apart. */
import { useMemo } from "react";
import classes from "./Code.module.css";
import { splitLines, type Token, tokenise } from "./python";

export function CodeText({ path, text }: { path: string; text: string }) {
  const lines = useMemo(() => {
    const tokens: Token[] = path.endsWith(".py") ? tokenise(text) : [{ text }];
    return splitLines(tokens);
  }, [path, text]);
  return (
    // Reached by the keyboard because it scrolls by itself.
    <section aria-label={`Text of ${path}`} tabIndex={0} className={classes.text}>
      <pre>
        <code>
          {lines.map((line, number) => (
            <span key={number} className={classes.line}>
              {line.map((token, at) =>
                token.kind ? (
                  <span key={at} className={classes[token.kind]}>
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
