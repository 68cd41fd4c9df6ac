import { type MantineColorScheme, SegmentedControl, useMantineColorScheme } from "@mantine/core";

const CHOICES = [
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
  { value: "auto", label: "System" },
];

export function Appearance() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <SegmentedControl
      fullWidth
      size="sm"
      aria-label="Appearance"
      data={CHOICES}
      value={colorScheme}
      onChange={(next) => setColorScheme(next as MantineColorScheme)}
    />
  );
}
