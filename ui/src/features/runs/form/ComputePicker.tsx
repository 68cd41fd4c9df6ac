/** Selects the compute resource of a run. Each option shows its contents, description and free capacity. */
import { Group, Select, Stack, Text } from "@mantine/core";
import { useOffers } from "../../../api/capacities";
import type { Schemas } from "../../../api/client";
import { useFinding } from "../../../forms/findings";
import { showByteQuantity } from "../../../forms/quantities";
import { Note } from "../../../forms/resolved";
import type { Tree } from "../../../forms/trees";
import { FitsNow, showOffer } from "../../../offers/FitsNow";
import { NewButton, withAddon } from "./fieldAddon";
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
  const byName = new Map(resources.map((item) => [item.name, item]));
  const selected = byName.get(value);
  const names = [...byName.keys()];
  return (
    <div>
      <Select
        label="Compute resource"
        description="Overrides the values below"
        placeholder="none"
        data={value && !selected ? [value, ...names] : names}
        value={value || null}
        onChange={(name) => onChange(name ?? "")}
        clearable
        searchable
        limit={100}
        maxDropdownHeight={340}
        nothingFoundMessage="No matching compute resources"
        error={finding("profile")}
        inputContainer={withAddon(mayOffer && <NewButton title="New compute resource" onClick={onNew} />)}
        renderOption={({ option }) => {
          const item = byName.get(option.value);
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
      {selected && (
        <Group gap="lg" mt={6} fz="xs" c="dimmed" role="group" aria-label={`Details of ${selected.name}`}>
          <span>{showContents(selected)}</span>
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

/** Formats the contents of a compute resource: "1 GPU (A100), 8 CPU, 64 GiB memory". */
export function showContents(item: Pick<Resource, "requirements">): string {
  const { gpu, cpu, mem, disk }: Tree = (item.requirements as Tree).resources ?? {};
  const amount = (bounds: Tree | undefined, show: (text: string) => string = String) =>
    bounds && (bounds.requests ? show(bounds.requests) : `up to ${show(bounds.limits)}`);
  const parts = [
    gpu?.devices ? showGpu(gpu) : undefined,
    cpu && `${amount(cpu)} CPU`,
    mem && `${amount(mem, showByteQuantity)} memory`,
    disk && `${amount(disk, showByteQuantity)} disk`,
  ].filter(Boolean);
  return parts.length > 0 ? parts.join(", ") : "No resource requests";
}

function showGpu({ devices, type, mig, memory }: Tree): string {
  const share = mig ? `MIG ${mig}` : typeof memory === "object" ? memory.request : memory;
  const details = [type, share].filter(Boolean).join(", ");
  return `${devices} ${devices === 1 ? "GPU" : "GPUs"}${details && ` (${details})`}`;
}
