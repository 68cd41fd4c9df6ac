/** What runs, where, and with what it begins. */
import { Input, SegmentedControl, Select, SimpleGrid, Stack, Text } from "@mantine/core";
import { ACTIONS, shortId, showType } from "../../../format/runs";
import { useFinding } from "../../../forms/findings";
import { Note } from "../../../forms/resolved";
import { beside, NewButton } from "./beside";
import { ComputePicker } from "./ComputePicker";
import { nameOf, type RunDraft } from "./drafts";
import { useFunctionsOf, useTemplatesOf } from "./requests";
import type { Start } from "./starts";

const WORKLOADS = ACTIONS.map((action) => ({ value: action, label: showType(action) }));
/** Stands for a function that is not kept by a name: names have no spaces. */
const AS_BEFORE = "as before";

interface Props {
  draft: RunDraft;
  onChange: (draft: RunDraft) => void;
  project: string;
  projects: string[];
  onMove: (project: string) => void;
  from: Start["from"];
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
          allowDeselect={false}
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
        onChoose={(chosen) => change({ function: chosen })}
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
  from: Start["from"];
  onChoose: (chosen: RunDraft["function"]) => void;
  onNew: () => void;
}

function FunctionSelect({ draft, project, from, onChoose, onNew }: FunctionProps) {
  const finding = useFinding();
  const kept = useFunctionsOf(project);
  const names = (kept.data ?? []).map((item) => item.name);
  // The one that an earlier run had stays to be chosen, whatever became of the one of its name.
  const before = typeof draft.read.function === "object" ? draft.read.function : undefined;
  const isBefore = typeof draft.function === "object";
  const chosen = isBefore ? AS_BEFORE : nameOf(draft);
  const label = `${before?.name}, as in run ${shortId(from?.id ?? "")}`;
  const data = [
    ...(before ? [{ value: AS_BEFORE, label }] : []),
    ...[...new Set([...(chosen && !isBefore ? [chosen] : []), ...names])].map((name) => ({
      value: name,
      label: name,
    })),
  ];
  return (
    <Select
      label="Function"
      placeholder={kept.data?.length === 0 ? "none yet: make one" : "choose what to run"}
      data={data}
      value={chosen || null}
      onChange={(name) => onChoose(name === AS_BEFORE && before ? before : (name ?? ""))}
      allowDeselect={false}
      searchable
      limit={100}
      nothingFoundMessage="No function has that name"
      error={finding("function") ?? (kept.error ? "The functions cannot be read now" : undefined)}
      inputContainer={beside(<NewButton title="New function" onClick={onNew} />)}
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
  const described = new Map(templates.map((template) => [template.name, template.description]));
  const names = [...described.keys()];
  return (
    <div>
      <Select
        label="Start from a template"
        description="Its values hold where nothing is typed"
        placeholder="none"
        data={value && !described.has(value) ? [value, ...names] : names}
        value={value || null}
        onChange={(name) => onChange(name ?? "")}
        clearable
        searchable
        limit={100}
        error={finding("template")}
        renderOption={({ option }) => (
          <div>
            <Text size="sm">{option.value}</Text>
            {described.get(option.value) && (
              <Text size="xs" c="dimmed">
                {described.get(option.value)}
              </Text>
            )}
          </div>
        )}
      />
      <Note path="template" />
    </div>
  );
}
