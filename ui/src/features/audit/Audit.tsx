/** The audit: who did what to what, when and from where. */
import { Button } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useMemo, useState } from "react";
import { useMe } from "../../api/currentUser";
import { useList } from "../../api/lists";
import { Loading } from "../../shell/Loading";
import { Page } from "../../shell/Page";
import { TablePage } from "../../table/TablePage";
import { useView } from "../../table/views";
import { type Entry, listColumns } from "./columns";
import { EntryDrawer } from "./EntryDrawer";

export default function Audit() {
  const me = useMe();
  if (!me.data) return <Loading />;
  if (me.data.roles.some((held) => held.role === "admin")) return <AuditTable />;
  return (
    <Page
      title="Audit"
      about="Administrators read what happened at the places that they govern. You govern none."
    />
  );
}

function AuditTable() {
  const [open, setOpen] = useState<Entry | null>(null);
  const columns = useMemo(() => listColumns(setOpen), []);
  const view = useView("audit", columns, "-at");
  const list = useList("/api/v1/audit", view.query);
  return (
    <>
      <TablePage
        title="Audit"
        about="Every change that somebody made at the places that you govern. Nobody can change or delete an entry."
        nouns="entries"
        emptyState={{ title: "Nothing happened yet", hint: "Every change leaves an entry here." }}
        columns={columns}
        view={view}
        list={list}
        keyOf={(entry) => entry.id}
        nameOf={(entry) => entry.action}
        actions={<ExportButton query={view.query} />}
      />
      {open && <EntryDrawer entry={open} onClose={() => setOpen(null)} />}
    </>
  );
}

/** A plain link: however long the audit is, the browser writes it straight to the disk. */
function ExportButton({ query }: { query: URLSearchParams }) {
  const wanted = new URLSearchParams(query);
  wanted.delete("sort");
  const today = new Date().toISOString().slice(0, 10);
  return (
    <Button
      component="a"
      variant="default"
      href={`/api/v1/audit/export?${wanted}`}
      download={`fairlead-audit-${today}.jsonl`}
      leftSection={<IconDownload size={16} stroke={1.6} />}
    >
      Export
    </Button>
  );
}
