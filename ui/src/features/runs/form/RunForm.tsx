/** The form of a run, with what would run beside it. */
import { Anchor, Button, Group } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { useEffectivePolicy } from "../../../api/policies";
import { violationsOf } from "../../../api/problems";
import { shortId } from "../../../format/runs";
import { Findings } from "../../../forms/findings";
import { Leaving } from "../../../forms/Leaving";
import { RequirementsFields } from "../../../forms/requirements/RequirementsFields";
import { Resolved } from "../../../forms/resolved";
import { runAddress } from "../../../shell/addresses";
import { Card, Columns, Foot, Page } from "../../../shell/Page";
import { ProblemAlert } from "../../../shell/Problem";
import { useNavigate } from "../../../shell/useNavigate";
import { FunctionDialog } from "../../functions/FunctionDialog";
import { Basics } from "./Basics";
import { CopyAs } from "./CopyAs";
import { NewComputeResource } from "./NewComputeResource";
import { Preview, VerdictBadge } from "./Preview";
import { RunFields } from "./RunFields";
import { useSecretNames } from "./requests";
import type { Start } from "./starts";
import { useRunForm } from "./useRunForm";

const WRONG = "[aria-invalid=true]";

interface Props {
  start: Start;
  projects: string[];
}

export function RunForm({ start, projects }: Props) {
  const form = useRunForm(start);
  const { draft, change, project } = form;
  const navigate = useNavigate();
  const [dialog, setDialog] = useState<"function" | "compute resource" | null>(null);
  const policy = useEffectivePolicy(`project/${project}`);
  const secrets = useSecretNames(project);
  const element = useRef<HTMLFormElement>(null);
  useEffect(() => {
    // Where to begin mending.
    if (form.error || form.missed > 0) element.current?.querySelector<HTMLElement>(WRONG)?.focus();
  }, [form.error, form.missed]);
  const close = () => setDialog(null);
  return (
    <>
      <form
        ref={element}
        onSubmit={(event) => {
          event.preventDefault();
          form.submit();
        }}
      >
        <Leaving isDirty={form.isDirty} />
        <Page
          title={start.from ? `Run ${start.from.function} again` : "New run"}
          about={start.from && <FromRun id={start.from.id} note={start.note} />}
          actions={<CopyAs project={project} request={form.request} />}
        >
          <Findings findings={form.findings}>
            <Resolved settings={form.look.plan?.settings ?? []}>
              <Columns
                label="Preview"
                side={
                  <Preview
                    look={form.look}
                    findings={form.findings}
                    name={form.name}
                    onTake={form.takeSuggestion}
                  />
                }
              >
                <Card>
                  <Basics
                    draft={draft}
                    onChange={change}
                    project={project}
                    projects={projects}
                    onMove={form.move}
                    from={start.from}
                    onNewFunction={() => setDialog("function")}
                    onNewComputeResource={() => setDialog("compute resource")}
                  />
                </Card>
                <Card title="Resources of each pod">
                  <RequirementsFields
                    path=""
                    value={draft.requirements}
                    onChange={(requirements) => change({ ...draft, requirements })}
                    mayLimitGpuMemory={policy.data?.switches.gpu_memory_limits?.value === true}
                    secrets={secrets}
                  />
                </Card>
                <Card title="The run">
                  <RunFields draft={draft} onChange={change} />
                </Card>
              </Columns>
            </Resolved>
          </Findings>
          {violationsOf(form.error).length === 0 && <ProblemAlert error={form.error} />}
          <Foot>
            <VerdictBadge look={form.look} />
            <Group ml="auto">
              <Button variant="default" onClick={() => navigate("/runs")}>
                Cancel
              </Button>
              <Button type="submit" loading={form.isSubmitting}>
                {form.isScheduled ? "Keep schedule" : "Submit run"}
              </Button>
            </Group>
          </Foot>
        </Page>
      </form>
      {/* Outside of the form: what is submitted in a dialog must not submit the run. */}
      {dialog === "function" && (
        <FunctionDialog
          project={project}
          onClose={close}
          onSaved={(name) => {
            change({ ...draft, function: name });
            close();
          }}
        />
      )}
      {dialog === "compute resource" && (
        <NewComputeResource
          project={project}
          onClose={close}
          onMade={(profile) => {
            change({ ...draft, requirements: { ...draft.requirements, profile } });
            close();
          }}
        />
      )}
    </>
  );
}

function FromRun({ id, note }: { id: string; note?: string }) {
  return (
    <>
      As in run{" "}
      <Anchor component={Link} href={runAddress(id)} fz="inherit" underline="always">
        {shortId(id)}
      </Anchor>
      , unless you change it here. {note}
    </>
  );
}
