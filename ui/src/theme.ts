/** The theme: one accent color, muted grays, dense controls. */
import {
  Badge,
  Button,
  createTheme,
  type MantineColorsTuple,
  Modal,
  Select,
  Table,
  Tooltip,
} from "@mantine/core";
import type { KeyboardEvent } from "react";

const sea: MantineColorsTuple = [
  "#e9f6f8",
  "#d3ebef",
  "#a8d7df",
  "#78c1cd",
  "#4faebd",
  "#2f9bad",
  "#127a8d",
  "#0b6b7d",
  "#085766",
  "#06414d",
];

export const theme = createTheme({
  colors: { sea },
  primaryColor: "sea",
  primaryShade: { light: 7, dark: 6 },
  autoContrast: true,
  defaultRadius: "md",
  cursorType: "pointer",
  respectReducedMotion: true,
  fontFamily: '"Inter Variable", ui-sans-serif, system-ui, "Segoe UI", sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", "Cascadia Code", Menlo, monospace',
  headings: {
    fontWeight: "620",
    sizes: { h1: { fontSize: "1.375rem" }, h2: { fontSize: "1.05rem" }, h3: { fontSize: "1rem" } },
  },
  components: {
    Button: Button.extend({ defaultProps: { size: "sm" } }),
    Badge: Badge.extend({
      defaultProps: { variant: "light", radius: "sm" },
      styles: { root: { textTransform: "none" } },
    }),
    Modal: Modal.extend({
      defaultProps: {
        centered: true,
        closeButtonProps: { "aria-label": "Close" },
        overlayProps: { blur: 1 },
      },
    }),
    Select: Select.extend({
      // Typing highlights the first match, so that Enter selects it. Optional fields have a clear button.
      defaultProps: { selectFirstOptionOnChange: true, allowDeselect: false, onKeyDown: selectOnEnter },
    }),
    Table: Table.extend({ defaultProps: { verticalSpacing: 6 } }),
    Tooltip: Tooltip.extend({ defaultProps: { openDelay: 300, withArrow: true } }),
  },
});

/**
 * Enter in an open list selects an option and never submits the form. Mantine alone does not ensure this: under
 * load, it forgets which option is highlighted, or highlights none because the options appeared after the last keypress.
 */
function selectOnEnter(event: KeyboardEvent<HTMLInputElement>) {
  const input = event.currentTarget;
  if (event.key !== "Enter" || input.ariaExpanded !== "true") return;
  event.preventDefault();
  const list = document.getElementById(input.getAttribute("aria-controls") ?? "");
  const highlighted = list?.querySelector<HTMLElement>("[data-combobox-selected], [data-combobox-active]");
  const firstMatch = input.value ? list?.querySelector<HTMLElement>("[data-combobox-option]") : undefined;
  (highlighted ?? firstMatch)?.click();
}
