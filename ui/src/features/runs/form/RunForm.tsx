/** The form for a run, with a preview next to it. */
import { Anchor, Button, Group } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { Link } from "wouter";
import { useEffectivePolicy } from "../../../api/policies";
import { violationsOf } from "../../../api/problems";
import { shortId } from "../../../format/runs";
import { Findings } from "../../../forms/findings";
import { RequirementsFields } from "../../../forms/requirements/RequirementsFields";
import { Resolved } from "../../../forms/resolved";
import { UnsavedChangesGuard } from "../../../forms/UnsavedChangesGuard";
import { runAddress } from "../../../shell/addresses";
import { Card, Columns, Foot, Page } from "../../../shell/Page";
import { ProblemAlert } from "../../../shell/Problem";
import { useNavigate } from "../../../shell/useNavigate";
import { FunctionDialog } from "../../functions/FunctionDialog";
import { Basics } from "./Basics";
import { ChangedPlanDialog } from "./ChangedPlanDialog";
import { CopyAs } from "./CopyAs";
import type { InitialValues } from "./initialValues";
import { NewComputeResource } from "./NewComputeResource";
import { Preview, VerdictBadge } from "./Preview";
import { RunFields } from "./RunFields";
import { useSecretNames } from "./requests";
import { useRunForm } from "./useRunForm";

const INVALID_FIELD = "[aria-invalid=true]";

interface Props {
  initialValues: InitialValues;
  projects: string[];
}

export function RunForm({ initialValues, projects }: Props) {
  const form = useRunForm(initialValues);
  const { draft, change, project } = form;
  const { from, note } = initialValues;
  const navigate = useNavigate();
  const [dialog, setDialog] = useState<"function" | "compute resource" | null>(null);
  const policy = useEffectivePolicy(`project/${project}`);
  const secrets = useSecretNames(project);
  const element = useRef<HTMLFormElement>(null);
  useEffect(() => {
    // Moves the focus to the first invalid field.
    if (form.error || form.failedSubmits > 0)
      element.current?.querySelector<HTMLElement>(INVALID_FIELD)?.focus();
  }, [form.error, form.failedSubmits]);
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
        <UnsavedChangesGuard isDirty={form.isDirty} />
        <Page
          title={from ? `Run ${from.function} again` : "New run"}
          about={from && <FromRun id={from.id} note={note} />}
          actions={<CopyAs project={project} request={form.request} />}
        >
          <Findings findings={form.findings}>
            <Resolved settings={form.preview.plan?.settings ?? []}>
              <Columns
                label="Preview"
                side={
                  <Preview
                    preview={form.preview}
                    findings={form.findings}
                    name={form.name}
                    onApply={form.applySuggestion}
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
                    from={from}
                    onNewFunction={() => setDialog("function")}
                    onNewComputeResource={() => setDialog("compute resource")}
                  />
                </Card>
                <Card title="Resources per pod">
                  <RequirementsFields
                    path=""
                    value={draft.requirements}
                    onChange={(requirements) => change({ ...draft, requirements })}
                    mayLimitGpuMemory={policy.data?.switches.gpu_memory_limits?.value === true}
                    secrets={secrets}
                  />
                </Card>
                <Card title="Run settings">
                  <RunFields draft={draft} onChange={change} />
                </Card>
              </Columns>
            </Resolved>
          </Findings>
          {violationsOf(form.error).length === 0 && <ProblemAlert error={form.error} />}
          <Foot>
            <VerdictBadge preview={form.preview} />
            <Group ml="auto">
              <Button variant="default" onClick={() => navigate("/runs")}>
                Cancel
              </Button>
              <Button type="submit" loading={form.isSubmitting}>
                {form.isScheduled ? "Create schedule" : "Submit run"}
              </Button>
            </Group>
          </Foot>
        </Page>
      </form>
      {/* These are outside the form, so that submitting a dialog does not submit the run. */}
      {form.changedPlan && (
        <ChangedPlanDialog
          differences={form.changedPlan.differences}
          isSubmitting={form.isSubmitting}
          onSubmit={form.submitChangedPlan}
          onClose={form.closeChangedPlan}
        />
      )}
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
          onCreated={(profile) => {
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
      Copied from run{" "}
      <Anchor component={Link} href={runAddress(id)} fz="inherit" underline="always">
        {shortId(id)}
      </Anchor>
      . {note}
    </>
  );
}
