/** A page with a table and its search, filters and actions. */
import { Button, Group, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { List } from "../api/lists";
import { Head } from "../shell/Page";
import { ProblemAlert } from "../shell/Problem";
import { ColumnPicker } from "./ColumnPicker";
import { AddFilter, FilterPills } from "./FilterBar";
import { SearchBox } from "./SearchBox";
import { Table, type TableProps } from "./Table";
import classes from "./TablePage.module.css";

interface Props<Item extends { id: string }> extends Omit<TableProps<Item>, "empty" | "label"> {
  title: string;
  about: string;
  /** Buttons for the whole table, such as "New token". */
  actions?: ReactNode;
  /** Buttons for the selected row. */
  selection?: ReactNode;
  /** Shown while the table is empty. */
  emptyState: { title: string; hint: ReactNode };
  /** Predefined filters, shown before the other controls. */
  quickFilters?: ReactNode;
  /** The plural name of the items, such as "compute resources". */
  nouns: string;
}

export function TablePage<Item extends { id: string }>({
  title,
  about,
  actions,
  selection,
  emptyState,
  quickFilters,
  nouns,
  ...table
}: Props<Item>) {
  const { view, list, columns } = table;
  return (
    <div className={classes.page}>
      <Head title={title} about={about} actions={actions} />
      <Group gap="xs" justify="space-between">
        <Group gap="xs">
          {quickFilters}
          <AddFilter columns={columns} view={view} />
          <SearchBox value={view.search} onSearch={view.setSearch} />
          <ColumnPicker columns={columns} chosen={view.columns} onChoose={view.setColumns} />
        </Group>
        {table.selected && (
          <Group gap="xs" role="toolbar" aria-label={`Actions for ${table.nameOf(table.selected)}`}>
            {/* The selected row may be scrolled out of view. */}
            <Text size="sm" fw={550} maw={260} truncate="end" aria-hidden>
              {table.nameOf(table.selected)}
            </Text>
            {selection}
          </Group>
        )}
      </Group>
      <FilterPills columns={columns} view={view} />
      {list.error && list.items.length === 0 ? (
        <ProblemAlert error={list.error} title={`Could not load ${nouns}`} onRetry={list.retry} />
      ) : (
        <>
          <Table
            {...table}
            label={title}
            empty={<EmptyTable emptyState={emptyState} nouns={nouns} view={view} />}
          />
          <Text size="xs" c="dimmed" className="number" role="status">
            {list.isLoading ? "Loading" : count(list, nouns)}
          </Text>
        </>
      )}
    </div>
  );
}

function EmptyTable({
  emptyState,
  nouns,
  view,
}: {
  emptyState: Props<never>["emptyState"];
  nouns: string;
  view: Props<never>["view"];
}) {
  return (
    <Stack align="center" gap={6} py={56} px="md" ta="center">
      <Text fw={550}>{view.isNarrowed ? `No ${nouns} match` : emptyState.title}</Text>
      <Text size="sm" c="dimmed" maw={440} component="div">
        {view.isNarrowed ? "Try clearing the search or the filters." : emptyState.hint}
      </Text>
      {view.isNarrowed && (
        <Button size="xs" variant="default" mt="xs" onClick={view.clear}>
          Clear search and filters
        </Button>
      )}
    </Stack>
  );
}

function count({ items, total, hasMore }: List<unknown>, nouns: string): string {
  const loaded = items.length.toLocaleString("en");
  // The total is null if the server would have to examine many records to count the matches.
  if (hasMore)
    return total === null
      ? `${loaded} ${nouns} so far, scroll for more`
      : `${loaded} of ${total.toLocaleString("en")} ${nouns}, scroll for more`;
  return items.length === 1 ? `1 ${singular(nouns)}` : `${loaded} ${nouns}`;
}

function singular(nouns: string): string {
  return nouns.endsWith("ies") ? `${nouns.slice(0, -3)}y` : nouns.slice(0, -1);
}
