/** A virtualized table: only the visible rows are rendered. */
import { Checkbox, Skeleton, Text, UnstyledButton } from "@mantine/core";
import { IconArrowDown, IconArrowUp } from "@tabler/icons-react";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, memo, type ReactNode, useEffect, useRef } from "react";
import type { List } from "../api/lists";
import type { Column } from "./columns";
import classes from "./Table.module.css";
import type { View } from "./views";

// Must match the row height in Table.module.css.
const ROW_HEIGHT = 41;
const MINUTE_MS = 60_000;
const SKELETONS = ["a", "b", "c", "d", "e", "f"];

export interface TableProps<Item extends { id: string }> {
  label: string;
  columns: Column<Item>[];
  view: View;
  list: List<Item>;
  nameOf: (item: Item) => string;
  selected?: Item | null;
  onSelect?: (item: Item | null) => void;
  /** Shown if there are no rows. */
  empty: ReactNode;
}

export function Table<Item extends { id: string }>({
  label,
  columns,
  view,
  list,
  nameOf,
  selected,
  onSelect,
  empty,
}: TableProps<Item>) {
  const frame = useRef<HTMLDivElement>(null);
  const shown = columns.filter((column, index) => index === 0 || view.columns.includes(column.key));
  const rows = useVirtualizer({
    count: list.items.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
  });
  const visible = rows.getVirtualItems();
  const lastVisible = visible.at(-1)?.index ?? 0;
  useEffect(() => {
    // Loads the next page before its rows become visible.
    if (list.hasMore && lastVisible >= list.items.length - 30) list.loadMore();
  }, [list, lastVisible]);

  const minute = Math.floor(Date.now() / MINUTE_MS);
  const above = visible[0]?.start ?? 0;
  const below = rows.getTotalSize() - (visible.at(-1)?.end ?? 0);
  const width = shown.reduce((sum, column) => sum + column.width, onSelect ? 44 : 0);
  const span = shown.length + (onSelect ? 1 : 0);
  return (
    <section
      ref={frame}
      className={classes.frame}
      aria-label={label}
      tabIndex={0}
      aria-busy={list.isLoading || list.isStale}
    >
      <table
        className={classes.table}
        style={{ minWidth: width }}
        aria-rowcount={list.total ?? list.items.length}
      >
        <caption className={classes.hidden}>{label}</caption>
        <colgroup>
          {onSelect && <col style={{ width: 44 }} />}
          {shown.map((column) => (
            <col key={column.key} style={{ width: column.width }} />
          ))}
        </colgroup>
        <thead>
          <tr>
            {onSelect && (
              <th className={classes.pick} scope="col">
                <span className={classes.hidden}>Select</span>
              </th>
            )}
            {shown.map((column) => (
              <Header key={column.key} column={column} view={view} />
            ))}
          </tr>
        </thead>
        <tbody data-stale={list.isStale || undefined} onKeyDown={moveFocus}>
          {above > 0 && <Gap height={above} span={span} />}
          {visible.map((row) => {
            const item = list.items[row.index]!;
            const isSelected = selected != null && selected.id === item.id;
            return (
              <tr
                key={item.id}
                aria-rowindex={row.index + 1}
                data-selected={isSelected || undefined}
                onClick={(event) => {
                  const isOther = (event.target as Element).closest("a, button, input, label");
                  if (!isOther) onSelect?.(isSelected ? null : item);
                }}
              >
                {onSelect && (
                  <td className={classes.pick}>
                    <Checkbox
                      size="xs"
                      aria-label={`Select ${nameOf(item)}`}
                      checked={isSelected}
                      onChange={() => onSelect(isSelected ? null : item)}
                    />
                  </td>
                )}
                {shown.map((column, index) => (
                  <td key={column.key} data-first={index === 0 || undefined} data-align={column.align}>
                    <Cell column={column} item={item} minute={minute} />
                  </td>
                ))}
              </tr>
            );
          })}
          {below > 0 && <Gap height={below} span={span} />}
          {list.isLoading &&
            SKELETONS.map((key) => (
              <tr key={key}>
                <td colSpan={span}>
                  <Skeleton height={14} my={6} />
                </td>
              </tr>
            ))}
        </tbody>
      </table>
      {!list.isLoading && list.items.length === 0 && empty}
    </section>
  );
}

interface CellProps<Item> {
  column: Column<Item>;
  item: Item;
  /** The current minute. A new value changes the props, so that relative times are re-rendered. */
  minute: number;
}

/** Memoized, because scrolling keeps re-rendering the table rows. */
const Cell = memo(function Cell<Item>({ column, item }: CellProps<Item>) {
  return column.render(item);
}) as <Item>(props: CellProps<Item>) => ReactNode;

function Header<Item>({ column, view }: { column: Column<Item>; view: View }) {
  const isDown = view.sort === `-${column.key}`;
  const isUp = view.sort === column.key;
  const order = isUp ? "ascending" : isDown ? "descending" : undefined;
  const title = (
    <Text span size="xs" fw={550} c={order ? undefined : "dimmed"}>
      {column.title}
    </Text>
  );
  return (
    <th scope="col" aria-sort={order} data-align={column.align}>
      {column.isUnsorted ? (
        title
      ) : (
        <UnstyledButton className={classes.sort} onClick={() => view.sortBy(column.key)}>
          {title}
          {isUp && <IconArrowUp size={13} aria-hidden />}
          {isDown && <IconArrowDown size={13} aria-hidden />}
        </UnstyledButton>
      )}
    </th>
  );
}

function Gap({ height, span }: { height: number; span: number }) {
  return (
    <tr aria-hidden>
      <td colSpan={span} style={{ height, padding: 0, border: 0 }} />
    </tr>
  );
}

/** Arrow keys move the focus between rows. */
function moveFocus(event: KeyboardEvent<HTMLTableSectionElement>): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const row = (event.target as Element).closest("tr");
  if (!step || !row) return;
  const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
  const target = next?.querySelector<HTMLElement>("input, a, button");
  if (target) {
    event.preventDefault();
    target.focus();
  }
}
