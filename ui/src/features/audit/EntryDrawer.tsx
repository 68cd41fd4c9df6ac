/** The details of an audit entry: changed values and all fields. */
import { Anchor, Drawer, Stack, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { Differences } from "../../format/Differences";
import { Facts } from "../../format/Facts";
import { showAge, showMoment } from "../../format/times";
import { listDifferences } from "../../format/values";
import { useRestoreFocus } from "../../shell/focus";
import { showKind } from "./actions";
import type { Entry } from "./columns";

interface Props {
  entry: Entry;
  onClose: () => void;
}

export function EntryDrawer({ entry, onClose }: Props) {
  useRestoreFocus();
  return (
    <Drawer
      opened
      onClose={onClose}
      position="right"
      size="lg"
      title={`${entry.action} ${entry.name}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <Stack>
        <Text size="sm">{describe(entry)}</Text>
        <section aria-label="Changes">
          <Title order={2} mb="xs">
            Changes
          </Title>
          <Differences differences={listDifferences(entry.before, entry.after)} />
        </section>
        <section aria-label="All fields">
          <Title order={2} mb="xs">
            All fields
          </Title>
          <Fields entry={entry} onClose={onClose} />
        </section>
      </Stack>
    </Drawer>
  );
}

function describe(entry: Entry): string {
  const verb = entry.before === null ? "created" : entry.after === null ? "deleted" : "changed";
  return `${entry.user} ${verb} this ${showKind(entry.kind)} ${showAge(entry.at)}.`;
}

function Fields({ entry, onClose }: Props) {
  const fields: [string, ReactNode][] = [
    ["When", `${showMoment(entry.at)} (${entry.at})`],
    ["User", entry.user],
    ["Via", entry.via],
    ["Address", entry.address],
    ["Action", entry.action],
    ["Kind", showKind(entry.kind)],
    ["Name", entry.name],
    ["Scope", entry.scope],
    ["Object ID", <FilterLink key="object" entry={entry} column="object_id" onClose={onClose} />],
    ["Scope ID", entry.scope_id],
    ["Request ID", <FilterLink key="request" entry={entry} column="request_id" onClose={onClose} />],
    ["Entry ID", entry.id],
  ];
  return <Facts facts={fields} />;
}

interface FilterLinkProps extends Props {
  column: "object_id" | "request_id";
}

/** A link to all entries with the same value. */
function FilterLink({ entry, column, onClose }: FilterLinkProps) {
  return (
    <Anchor
      component={Link}
      href={`/audit?${column}=${encodeURIComponent(entry[column])}`}
      fz="sm"
      onClick={onClose}
    >
      {entry[column]}
    </Anchor>
  );
}
