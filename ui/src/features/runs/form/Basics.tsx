/** Basic fields for a run: project, workload, function, compute resource and template. */
import { Input, SegmentedControl, Select, SimpleGrid, Stack, Text } from "@mantine/core";
import { ACTIONS, shortId, showType } from "../../../format/runs";
import { useFinding } from "../../../forms/findings";
import { Note } from "../../../forms/resolved";
import { ComputePicker } from "./ComputePicker";
import { nameOf, type RunDraft } from "./drafts";
import { NewButton, withAddon } from "./fieldAddon";
import type { InitialValues } from "./initialValues";
import { useFunctionsOf, useTemplatesOf } from "./requests";

const WORKLOADS = ACTIONS.map((action) => ({ value: action, label: showType(action) }));
/** The option for an earlier run's unsaved function. No function has this name, because names have no spaces. */
const EARLIER_FUNCTION = "earlier function";

interface Props {
  draft: RunDraft;
  onChange: (draft: RunDraft) => void;
  project: string;
  projects: string[];
  onMove: (project: string) => void;
  from: InitialValues["from"];
  onNewFunction: () => void;
  onNewComputeResource: () => void;
}

export function Basics({ draft, onChange, project, projects, onMove, ...rest }: Props) {
  const finding = useFinding();
  const change = (part: Partial<RunDraft>) => onChange({ ...draft, ...part });
  return (
    <Stack>
      <SimpleGrid cols={{ base: 1, xs: 2 }} spacing="md">
        <Select
          label="Project"
          data={projects}
          value={project}
          searchable={projects.length > 8}
          onChange={(next) => next && onMove(next)}
        />
        <Stack gap={4}>
          <Input.Label component="div">Workload</Input.Label>
          <SegmentedControl
            aria-label="Workload"
            data={WORKLOADS}
            value={draft.action}
            onChange={(action) => change({ action })}
            fullWidth
          />
          {finding("action") && <Input.Error>{finding("action")}</Input.Error>}
        </Stack>
      </SimpleGrid>
      <FunctionSelect
        draft={draft}
        project={project}
        from={rest.from}
        onChange={(selected) => change({ function: selected })}
        onNew={rest.onNewFunction}
      />
      <ComputePicker
        project={project}
        action={draft.action}
        value={draft.requirements.profile}
        onChange={(profile) => change({ requirements: { ...draft.requirements, profile } })}
        onNew={rest.onNewComputeResource}
      />
      <TemplateSelect
        project={project}
        value={draft.template}
        onChange={(template) => change({ template })}
      />
    </Stack>
  );
}

interface FunctionProps {
  draft: RunDraft;
  project: string;
  from: InitialValues["from"];
  onChange: (selected: RunDraft["function"]) => void;
  onNew: () => void;
}

function FunctionSelect({ draft, project, from, onChange, onNew }: FunctionProps) {
  const finding = useFinding();
  const functions = useFunctionsOf(project);
  const names = (functions.data ?? []).map((item) => item.name);
  // The function of the earlier run stays selectable, even if a saved function with the same name has changed.
  const earlier = typeof draft.read.function === "object" ? draft.read.function : undefined;
  const isEarlier = typeof draft.function === "object";
  const selected = isEarlier ? EARLIER_FUNCTION : nameOf(draft);
  const label = `${earlier?.name} (from run ${shortId(from?.id ?? "")})`;
  const data = [
    ...(earlier ? [{ value: EARLIER_FUNCTION, label }] : []),
    ...[...new Set([...(selected && !isEarlier ? [selected] : []), ...names])].map((name) => ({
      value: name,
      label: name,
    })),
  ];
  return (
    <Select
      label="Function"
      placeholder={functions.data?.length === 0 ? "No functions yet" : "Select a function"}
      data={data}
      value={selected || null}
      onChange={(name) => onChange(name === EARLIER_FUNCTION && earlier ? earlier : (name ?? ""))}
      searchable
      limit={100}
      nothingFoundMessage="No matching functions"
      error={finding("function") ?? (functions.error ? "Could not load functions" : undefined)}
      inputContainer={withAddon(<NewButton title="New function" onClick={onNew} />)}
    />
  );
}

interface TemplateProps {
  project: string;
  value: string;
  onChange: (name: string) => void;
}

function TemplateSelect({ project, value, onChange }: TemplateProps) {
  const finding = useFinding();
  const templates = useTemplatesOf(project);
  const descriptions = new Map(templates.map((template) => [template.name, template.description]));
  const names = [...descriptions.keys()];
  return (
    <div>
      <Select
        label="Start from a template"
        description="Used where you leave a field empty"
        placeholder="none"
        data={value && !descriptions.has(value) ? [value, ...names] : names}
        value={value || null}
        onChange={(name) => onChange(name ?? "")}
        clearable
        searchable
        limit={100}
        error={finding("template")}
        renderOption={({ option }) => (
          <div>
            <Text size="sm">{option.value}</Text>
            {descriptions.get(option.value) && (
              <Text size="xs" c="dimmed">
                {descriptions.get(option.value)}
              </Text>
            )}
          </div>
        )}
      />
      <Note path="template" />
    </div>
  );
}
