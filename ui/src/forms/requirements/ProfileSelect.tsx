import { Select } from "@mantine/core";
import { useFinding } from "../findings";

interface Props {
  names: string[];
  value: string;
  onChange: (name: string) => void;
}

/** The compute resource to begin with. One that is out of sight can stay chosen. */
export function ProfileSelect({ names, value, onChange }: Props) {
  const finding = useFinding();
  return (
    <Select
      label="Compute resource"
      description="What it says wins over the values below"
      placeholder="none"
      data={value && !names.includes(value) ? [value, ...names] : names}
      value={value || null}
      onChange={(name) => onChange(name ?? "")}
      clearable
      searchable
      error={finding("profile")}
    />
  );
}
