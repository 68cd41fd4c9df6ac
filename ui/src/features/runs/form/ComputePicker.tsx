/** The compute resource of a run: what is in each, what it is for, and how many more of it fit now. */
import { Group, Select, Stack, Text } from "@mantine/core";
import { useOffers } from "../../../api/capacities";
import type { Schemas } from "../../../api/client";
import { useFinding } from "../../../forms/findings";
import { Note } from "../../../forms/resolved";
import type { Tree } from "../../../forms/trees";
import { FitsNow, showOffer } from "../../../offers/FitsNow";
import { beside, NewButton } from "./beside";
import { useComputeResourcesOf, useScopesAbove } from "./requests";

type Resource = Schemas["ComputeResourceRecord"];

interface Props {
  project: string;
  action: string;
  value: string;
  onChange: (name: string) => void;
  onNew: () => void;
}

export function ComputePicker({ project, action, value, onChange, onNew }: Props) {
  const finding = useFinding();
  const mayOffer = useScopesAbove(project).length > 0;
  const offers = useOffers(project).data;
  const resources = useComputeResourcesOf(project, action) ?? [];
  const known = new Map(resources.map((item) => [item.name, item]));
  const chosen = known.get(value);
  const names = [...known.keys()];
  return (
    <div>
      <Select
        label="Compute resource"
        description="What it says wins over the values below"
        placeholder="none"
        data={value && !chosen ? [value, ...names] : names}
        value={value || null}
        onChange={(name) => onChange(name ?? "")}
        clearable
        searchable
        limit={100}
        maxDropdownHeight={340}
        nothingFoundMessage="No compute resource has that name"
        error={finding("profile")}
        inputContainer={beside(mayOffer && <NewButton title="New compute resource" onClick={onNew} />)}
        renderOption={({ option }) => {
          const item = known.get(option.value);
          const offer = offers?.get(option.value);
          return (
            <Stack gap={0} flex={1}>
              <Group justify="space-between" wrap="nowrap" gap="md">
                <Text size="sm" fw={550}>
                  {option.value}
                </Text>
                {offer && (
                  <Text size="xs" c="dimmed" className="number" ta="right">
                    fits now: {showOffer(offer)}
                  </Text>
                )}
              </Group>
              {item && <Text size="xs">{showContents(item)}</Text>}
              {item?.description && (
                <Text size="xs" c="dimmed">
                  {item.description}
                </Text>
              )}
            </Stack>
          );
        }}
      />
      <Note path="profile" />
      {chosen && (
        <Group gap="lg" mt={6} fz="xs" c="dimmed" role="group" aria-label={`About ${chosen.name}`}>
          <span>{showContents(chosen)}</span>
          {offers?.get(value) && (
            <span>
              Fits now: <FitsNow offer={offers.get(value)} />
            </span>
          )}
        </Group>
      )}
    </div>
  );
}

/** "1 GPU (A100), 8 CPU, 64Gi memory". */
export function showContents(item: Pick<Resource, "requirements">): string {
  const { gpu, cpu, mem, disk }: Tree = (item.requirements as Tree).resources ?? {};
  const amount = (said: Tree | undefined) => said?.requests ?? (said && `up to ${said.limits}`);
  const parts = [
    gpu?.devices ? showGpu(gpu) : undefined,
    amount(cpu) && `${amount(cpu)} CPU`,
    amount(mem) && `${amount(mem)} memory`,
    amount(disk) && `${amount(disk)} disk`,
  ].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : "no amounts";
}

function showGpu({ devices, type, mig, memory }: Tree): string {
  const share = mig ? `MIG ${mig}` : typeof memory === "object" ? memory.request : memory;
  const inside = [type, share].filter(Boolean).join(", ");
  return `${devices} ${devices === 1 ? "GPU" : "GPUs"}${inside && ` (${inside})`}`;
}
