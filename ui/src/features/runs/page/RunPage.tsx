/** Page for a run. Each tab has its own URL. */
import { Alert, Anchor, Group, Text } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { Link, useParams } from "wouter";
import { isProblem } from "../../../api/problems";
import { type Run, useRun } from "../../../api/runs";
import { shortName } from "../../../format/runs";
import { useLast } from "../../../format/useLast";
import { RunActions } from "../../../runs/RunActions";
import { StateBadge } from "../../../runs/StateBadge";
import { runAddress } from "../../../shell/addresses";
import { Loading } from "../../../shell/Loading";
import { NotFoundPage } from "../../../shell/NotFoundPage";
import { Page } from "../../../shell/Page";
import { ProblemPage } from "../../../shell/Problem";
import { type Part, TabLinks } from "../../../shell/TabLinks";
import { useNavigate } from "../../../shell/useNavigate";
import { About } from "./About";
import { Events } from "./Events";
import { Files } from "./Files";
import { Logs } from "./logs/Logs";
import { Overview } from "./overview/Overview";
import { PlanManifests, PlanSettings } from "./PlanTabs";
import { UsageCharts } from "./usage/UsageCharts";

export default function RunPage() {
  const { id = "", part } = useParams<{ id: string; part?: string }>();
  // Resets the page's state when a different run is opened.
  return <RunView key={id} id={id} part={part ?? "overview"} />;
}

function RunView({ id, part }: { id: string; part: string }) {
  const query = useRun(id);
  const run = useLast(query.data);
  if (!run) {
    if (query.error) return <ProblemPage error={query.error} link={{ title: "All runs", href: "/runs" }} />;
    return <Loading />;
  }
  const parts = partsOf(run);
  if (!parts.some(({ name }) => name === part)) return <NotFoundPage />;
  const isDeleted = isProblem(query.error, "not_found");
  return (
    <Page
      title={shortName(run)}
      parent={{ title: "Runs", href: "/runs", name: run.id }}
      badges={<State run={run} />}
      about={<About run={run} />}
      actions={!isDeleted && <Actions run={run} />}
    >
      {isDeleted && <Deleted />}
      <TabLinks label="Run sections" parts={parts} chosen={part} address={runAddress(id)} />
    </Page>
  );
}

function partsOf(run: Run): Part[] {
  return [
    { name: "overview", title: "Overview", render: () => <Overview run={run} /> },
    { name: "logs", title: "Logs", render: () => <Logs run={run} /> },
    { name: "usage", title: "Usage", render: () => <UsageCharts run={run} /> },
    { name: "configuration", title: "Configuration", render: () => <PlanSettings run={run} /> },
    { name: "manifests", title: "Manifests", render: () => <PlanManifests run={run} /> },
    { name: "events", title: "Events", render: () => <Events run={run} /> },
    { name: "files", title: "Files", render: () => <Files run={run} /> },
  ];
}

function State({ run }: { run: Run }) {
  // Hides a reason that only repeats the state.
  const reason = run.reason.toLowerCase() !== run.state && run.reason;
  return (
    <>
      <StateBadge state={run.state} role="status" />
      {reason && (
        <Text span size="sm" c="dimmed">
          {reason}
        </Text>
      )}
    </>
  );
}

function Actions({ run }: { run: Run }) {
  const navigate = useNavigate();
  return (
    <Group gap="xs" role="toolbar" aria-label={`Actions for ${shortName(run)}`}>
      <RunActions run={run} onDeleted={() => navigate("/runs")} />
    </Group>
  );
}

function Deleted() {
  return (
    <Alert role="alert" color="orange" icon={<IconTrash size={18} />} title="This run was deleted">
      This page shows its last known state.{" "}
      <Anchor component={Link} underline="always" href="/runs" fz="sm">
        All runs
      </Anchor>
    </Alert>
  );
}
