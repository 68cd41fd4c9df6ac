/** Key facts and resources of a run. */
import { Anchor } from "@mantine/core";
import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Run } from "../../../../api/runs";
import { splitScope } from "../../../../api/scopes";
import { Facts } from "../../../../format/Facts";
import { showType } from "../../../../format/runs";
import { showMoment } from "../../../../format/times";
import { Card } from "../../../../shell/Page";
import { NONE } from "../../../../table/columns";
import { downloadAddress } from "../requests";
import { Amounts } from "./Amounts";

export function RunFacts({ run }: { run: Run }) {
  return (
    <>
      <Card title="Run">
        <Facts facts={listFacts(run)} />
      </Card>
      <Amounts run={run} />
    </>
  );
}

function listFacts(run: Run): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [
    ["ID", <code key="id">{run.id}</code>],
    ["Type", showType(run.action)],
    ["Cluster", run.cluster ? splitScope(run.cluster).name : NONE],
    ["Compute resource", run.compute_resource ? <ComputeResource run={run} /> : NONE],
    ["Template", run.template ? <NameLink path="templates" name={run.template} /> : NONE],
    ["Code", run.code ? <Code run={run} digest={run.code} /> : NONE],
    ["Submitted", moment(run.created_at)],
    ["Started", moment(run.started_at)],
    ["Ended", moment(run.finished_at)],
  ];
  if (run.priority) facts.push(["Priority", run.priority]);
  if (run.schedule) facts.push(["Schedule", run.schedule]);
  if (run.attempt > 1) facts.push(["Attempt", run.attempt]);
  if (run.last_used_at) facts.push(["Last used", moment(run.last_used_at)]);
  if (run.stopped_by) facts.push(["Stopped by", run.stopped_by]);
  if (run.exit_code !== null) facts.push(["Exit code", run.exit_code]);
  return facts;
}

function ComputeResource({ run }: { run: Run }) {
  return (
    <>
      <NameLink path="compute-resources" name={run.compute_resource!} />, revision{" "}
      {run.compute_resource_revision}
    </>
  );
}

function NameLink({ path, name }: { path: string; name: string }) {
  return (
    <Anchor component={Link} underline="always" href={`/${path}/${encodeURIComponent(name)}`} fz="sm">
      {name}
    </Anchor>
  );
}

function Code({ run, digest }: { run: Run; digest: string }) {
  return (
    <Anchor fz="sm" href={downloadAddress(run.id, "code")} download title={digest}>
      Download code ({digest.replace(/^sha256:/, "").slice(0, 7)})
    </Anchor>
  );
}

function moment(at: string | null): ReactNode {
  return at ? <time dateTime={at}>{showMoment(at)}</time> : NONE;
}
