/** The audit log page. */
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
  if (me.data.roles.some((grant) => grant.role === "admin")) return <AuditTable />;
  return <Page title="Audit log" about="Only administrators can see the audit log." />;
}

function AuditTable() {
  const [open, setOpen] = useState<Entry | null>(null);
  const columns = useMemo(() => listColumns(setOpen), []);
  const view = useView("audit", columns, "-at");
  const list = useList("/api/v1/audit", view.query);
  return (
    <>
      <TablePage
        title="Audit log"
        about="Every change in the scopes you administer. Entries are permanent."
        nouns="entries"
        emptyState={{ title: "No entries yet", hint: "Every change creates an entry." }}
        columns={columns}
        view={view}
        list={list}
        nameOf={(entry) => entry.action}
        actions={<ExportButton query={view.query} />}
      />
      {open && <EntryDrawer entry={open} onClose={() => setOpen(null)} />}
    </>
  );
}

/** A plain link, so that the browser streams the file to disk. */
function ExportButton({ query }: { query: URLSearchParams }) {
  const filters = new URLSearchParams(query);
  // The export has a fixed order and rejects this parameter.
  filters.delete("sort");
  const today = new Date().toISOString().slice(0, 10);
  return (
    <Button
      component="a"
      variant="default"
      href={`/api/v1/audit/export?${filters}`}
      download={`fairlead-audit-${today}.jsonl`}
      leftSection={<IconDownload size={16} stroke={1.6} />}
    >
      Export
    </Button>
  );
}
