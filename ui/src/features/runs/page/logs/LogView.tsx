/** A virtualized list of log lines. Follows new lines while it is scrolled to the end. */
import { Button } from "@mantine/core";
import { IconArrowDown } from "@tabler/icons-react";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  type ReactNode,
  type Ref,
  useCallback,
  useEffect,
  useImperativeHandle,
  useLayoutEffect,
  useRef,
} from "react";
import { LogLine } from "./LogLine";
import classes from "./Logs.module.css";
import type { Selection } from "./selection";
import type { DisplayOptions } from "./Toolbar";

// Same as in Logs.module.css.
const LINE_HEIGHT = 20;
/** Within this many pixels of the end, the view counts as scrolled to the end. */
const END_DISTANCE = 12;

export interface LogViewHandle {
  show: (index: number) => void;
  /** Returns the first match after the top of the view, or, if `step` is -1, the last match before it. */
  firstHit: (step: 1 | -1) => number;
}

interface Props {
  ref: Ref<LogViewHandle>;
  selection: Selection;
  options: DisplayOptions;
  search: string;
  currentLine: number | undefined;
  isFollowing: boolean;
  onFollow: (isFollowing: boolean) => void;
  empty: ReactNode;
}

export function LogView({
  ref,
  selection,
  options,
  search,
  currentLine,
  isFollowing,
  onFollow,
  empty,
}: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: selection.count,
    getScrollElement: () => frame.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
    // Measured heights belong to lines, not to rows. A new function makes the virtualizer remeasure all lines.
    getItemKey: useCallback((index: number) => selection.line(index)?.number ?? index, [selection]),
  });
  const size = rows.getTotalSize();
  const goToEnd = () => {
    if (frame.current) frame.current.scrollTop = frame.current.scrollHeight;
  };
  // Runs when lines are added and when their measured heights change.
  useLayoutEffect(() => {
    if (isFollowing) goToEnd();
  }, [isFollowing, size]);
  // These options change the heights of all lines.
  useEffect(() => rows.measure(), [options.isWrapped, options.hasTimes]);
  useImperativeHandle(ref, () => ({
    show: (index) => rows.scrollToIndex(index, { align: "center" }),
    firstHit: (step) => {
      const top = rows.getVirtualItemForOffset(frame.current!.scrollTop)?.index ?? 0;
      const after = selection.hits.findIndex((hit) => hit >= top);
      const first = after < 0 ? selection.hits.length : after;
      return step > 0 ? first : first - 1;
    },
  }));
  const visible = rows.getVirtualItems();
  return (
    <div className={classes.container}>
      <div
        ref={frame}
        className={classes.frame}
        role="log"
        // Otherwise, screen readers would announce every new line.
        aria-live="off"
        aria-label="Log lines"
        tabIndex={0}
        data-wrapped={options.isWrapped || undefined}
        onScroll={useScrollHandler(onFollow)}
      >
        {selection.count === 0 ? (
          <div className={classes.empty}>{empty}</div>
        ) : (
          <div style={{ height: size }}>
            <div className={classes.rows} style={{ transform: `translateY(${visible[0]?.start ?? 0}px)` }}>
              {visible.map(({ index }) => {
                const line = selection.line(index)!;
                return (
                  <LogLine
                    key={line.number}
                    // Without wrapping, all lines have the same height and need not be measured.
                    ref={options.isWrapped ? rows.measureElement : undefined}
                    index={index}
                    number={line.number}
                    at={options.hasTimes ? line.at : null}
                    stream={line.stream}
                    text={line.text}
                    cut={line.cut}
                    search={search}
                    isCurrent={index === currentLine}
                  />
                );
              })}
            </div>
          </div>
        )}
      </div>
      {!isFollowing && (
        <Button
          className={classes.follow}
          size="xs"
          leftSection={<IconArrowDown size={15} />}
          onClick={() => {
            onFollow(true);
            goToEnd();
          }}
        >
          Follow
        </Button>
      )}
    </div>
  );
}

/** Scrolling up stops following the log; scrolling to the end resumes it. */
function useScrollHandler(onFollow: (isFollowing: boolean) => void) {
  const before = useRef(0);
  return ({ currentTarget: { scrollTop, scrollHeight, clientHeight } }: { currentTarget: HTMLElement }) => {
    if (scrollHeight - scrollTop - clientHeight < END_DISTANCE) onFollow(true);
    // Corrections to estimated heights also scroll the view, but never up.
    else if (scrollTop < before.current) onFollow(false);
    before.current = scrollTop;
  };
}
