/** One log line with its stream, time, colors and search matches. */
import { memo, type Ref } from "react";
import { showClock } from "../../../../format/times";
import { type Span, splitColors } from "./colors";
import classes from "./Logs.module.css";
import type { Line } from "./lines";

/** Longer lines are cut off: laying out a 1 MB line takes the browser about a second. */
const MAX_CHARACTERS = 4000;
const LABELS: Record<Line["stream"], string> = { stdout: "", stderr: "err", platform: "fairlead" };

interface Props {
  ref?: Ref<HTMLDivElement>;
  index: number;
  number: number;
  at: string | null;
  stream: Line["stream"];
  text: string;
  cut: number;
  search: string;
  isCurrent: boolean;
}

export const LogLine = memo(function LogLine({
  ref,
  index,
  number,
  at,
  stream,
  text,
  cut,
  search,
  isCurrent,
}: Props) {
  const rest = Math.max(0, text.length - MAX_CHARACTERS) + cut;
  return (
    <div
      ref={ref}
      className={classes.line}
      data-index={index}
      data-stream={stream}
      data-current={isCurrent || undefined}
    >
      <span className={classes.number} aria-hidden>
        {number}
      </span>
      {at && (
        <time className={classes.time} dateTime={at}>
          {showClock(at, true)}
        </time>
      )}
      <span className={classes.label}>{LABELS[stream]}</span>
      <span className={classes.text}>
        {splitColors(text.slice(0, MAX_CHARACTERS)).map((span, index) => (
          <ColoredSpan key={index} span={span} search={search} />
        ))}
        {rest > 0 && (
          <span className={classes.rest}> … {rest.toLocaleString("en")} more characters in the download</span>
        )}
      </span>
    </div>
  );
});

function ColoredSpan({ span, search }: { span: Span; search: string }) {
  const marked = search ? mark(span.text, search) : span.text;
  if (span.color === undefined && !span.isBold && !span.isFaint && !span.isUnderlined) return marked;
  return (
    <span
      data-color={span.color}
      data-bold={span.isBold || undefined}
      data-faint={span.isFaint || undefined}
      data-underlined={span.isUnderlined || undefined}
    >
      {marked}
    </span>
  );
}

function mark(text: string, search: string) {
  const parts = [];
  const [lower, query] = [text.toLowerCase(), search.toLowerCase()];
  let from = 0;
  for (let at = lower.indexOf(query); at >= 0; at = lower.indexOf(query, from)) {
    parts.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + search.length)}</mark>);
    from = at + search.length;
  }
  return (
    <>
      {parts}
      {text.slice(from)}
    </>
  );
}
