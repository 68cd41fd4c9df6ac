/** The columns of the audit log. Clicking the time opens the entry. */
import { Anchor, Text } from "@mantine/core";
import type { Schemas } from "../../api/client";
import { showMoment } from "../../format/times";
import { ScopeLink } from "../../scopes/ScopeLink";
import { type Column, NONE } from "../../table/columns";
import { ALL_ACTIONS, colorOf, KINDS, showKind } from "./actions";

export type Entry = Schemas["AuditRecord"];

export function listColumns(onOpen: (entry: Entry) => void): Column<Entry>[] {
  return [
    {
      key: "at",
      title: "When",
      width: 190,
      kind: "time",
      render: (entry) => (
        <Anchor
          component="button"
          type="button"
          fz="inherit"
          className="number"
          onClick={() => onOpen(entry)}
        >
          <time dateTime={entry.at}>{showMoment(entry.at)}</time>
        </Anchor>
      ),
    },
    { key: "user", title: "User", width: 170, kind: "keyword", render: (entry) => entry.user },
    {
      key: "action",
      title: "Action",
      width: 195,
      kind: "keyword",
      options: ALL_ACTIONS,
      render: (entry) => (
        <Text span fz="inherit" c={colorOf(entry.action)}>
          {entry.action}
        </Text>
      ),
    },
    {
      key: "kind",
      title: "Kind",
      width: 130,
      kind: "keyword",
      options: KINDS,
      render: (entry) => showKind(entry.kind),
    },
    { key: "name", title: "Name", width: 180, kind: "text", render: (entry) => entry.name },
    {
      key: "scope",
      title: "Scope",
      width: 170,
      kind: "keyword",
      render: (entry) => <ScopeLink scope={entry.scope} />,
    },
    {
      key: "address",
      title: "Address",
      width: 120,
      kind: "keyword",
      render: (entry) => entry.address || NONE,
    },
    { key: "via", title: "Via", width: 180, isUnsorted: true, render: (entry) => entry.via },
    {
      key: "request_id",
      title: "Request ID",
      width: 150,
      kind: "keyword",
      render: (entry) => entry.request_id,
    },
    {
      key: "object_id",
      title: "Object ID",
      width: 150,
      kind: "keyword",
      isExtra: true,
      render: (entry) => entry.object_id,
    },
  ];
}
