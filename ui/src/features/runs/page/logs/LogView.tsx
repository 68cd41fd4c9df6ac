/** The lines of a log, of which only those in sight are drawn. It stays at the end as long as one is there. */
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
import type { Selection } from "./selecting";
import type { Look } from "./Toolbar";

const LINE_HEIGHT = 20;
/** So near to the end is at it. */
const NEAR = 12;

export interface LogViewHandle {
  show: (index: number) => void;
  /** The hit to begin with: the first in sight or after it, or the last before. */
  firstHit: (step: 1 | -1) => number;
}

interface Props {
  ref: Ref<LogViewHandle>;
  selection: Selection;
  look: Look;
  search: string;
  currentLine: number | undefined;
  isFollowing: boolean;
  onFollow: (isFollowing: boolean) => void;
  empty: ReactNode;
}

export function LogView({ ref, selection, look, search, currentLine, isFollowing, onFollow, empty }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: selection.count,
    getScrollElement: () => frame.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
    // Heights are those of lines, wherever these come to stand. Another function measures all of them anew.
    getItemKey: useCallback((index: number) => selection.line(index)?.number ?? index, [selection]),
  });
  const size = rows.getTotalSize();
  const goToEnd = () => {
    if (frame.current) frame.current.scrollTop = frame.current.scrollHeight;
  };
  // Whenever there is more, or lines turn out to have other heights.
  useLayoutEffect(() => {
    if (isFollowing) goToEnd();
  }, [isFollowing, size]);
  useEffect(() => rows.measure(), [look.isWrapped, look.hasTimes]);
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
    <div className={classes.place}>
      <div
        ref={frame}
        className={classes.frame}
        role="log"
        // It would be read aloud without end.
        aria-live="off"
        aria-label="Lines of the log"
        tabIndex={0}
        data-wrapped={look.isWrapped || undefined}
        onScroll={useFollowing(onFollow)}
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
                    ref={look.isWrapped ? rows.measureElement : undefined}
                    index={index}
                    number={line.number}
                    at={look.hasTimes ? line.at : null}
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

/** Whoever scrolls up stays there; whoever comes to the end follows. */
function useFollowing(onFollow: (isFollowing: boolean) => void) {
  const before = useRef(0);
  return ({ currentTarget: { scrollTop, scrollHeight, clientHeight } }: { currentTarget: HTMLElement }) => {
    if (scrollHeight - scrollTop - clientHeight < NEAR) onFollow(true);
    // Lines that turn out to be higher than they were thought also move what is in sight, but never up.
    else if (scrollTop < before.current) onFollow(false);
    before.current = scrollTop;
  };
}
