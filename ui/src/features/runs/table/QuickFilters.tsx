/** Quick filters for the table of runs. Each sets a filter in the URL. */
import { Button, Group } from "@mantine/core";
import { Link, useSearchParams } from "wouter";
import { useMe } from "../../../api/currentUser";

interface Choice {
  title: string;
  filter?: [column: string, text: string];
}

export function QuickFilters() {
  const [params] = useSearchParams();
  const user = useMe().data?.user ?? "";
  const choices: Choice[] = [
    { title: "All" },
    { title: "Active", filter: ["active", "true"] },
    { title: "Mine", filter: ["created_by", `=${user}`] },
    { title: "Failed", filter: ["state", "failed"] },
  ];
  const filters = choices.flatMap(({ filter }) => (filter ? [filter] : []));
  const has = ([column, text]: [string, string]) => params.getAll(column).includes(text);
  return (
    <Group gap={2} component="nav" aria-label="Quick filters">
      {choices.map(({ title, filter }) => {
        const isCurrent = filter ? has(filter) : !filters.some(has);
        return (
          <Button
            key={title}
            component={Link}
            href={addressOf(params, filters, filter)}
            size="sm"
            px="sm"
            variant={isCurrent ? "light" : "subtle"}
            color={isCurrent ? undefined : "gray"}
            c={isCurrent ? undefined : "var(--mantine-color-text)"}
            aria-current={isCurrent || undefined}
          >
            {title}
          </Button>
        );
      })}
    </Group>
  );
}

/** Returns the current URL with one quick filter. Keeps the search and all other filters. */
function addressOf(params: URLSearchParams, others: [string, string][], filter: Choice["filter"]): string {
  const next = new URLSearchParams(params);
  for (const [column, text] of others) next.delete(column, text);
  if (filter) next.append(...filter);
  return next.size > 0 ? `/runs?${next}` : "/runs";
}
