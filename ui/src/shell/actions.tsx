/** Small buttons for actions on an item. Buttons for destructive actions are red. */
import { Button, type ButtonProps } from "@mantine/core";
import { type Icon, IconTrash } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { Link } from "wouter";

interface Props extends ButtonProps {
  icon: Icon;
  onClick: () => void;
  children: ReactNode;
}

export function ActionButton({ icon: Icon, ...button }: Props) {
  return <Button variant="default" size="xs" leftSection={<Icon size={15} />} {...button} />;
}

export function DangerButton(button: Omit<Props, "icon">) {
  return <ActionButton icon={IconTrash} c="var(--mantine-color-error)" {...button} />;
}

/** A link to the page for the action. */
export function ActionLink({ icon: Icon, ...button }: Omit<Props, "onClick"> & { href: string }) {
  return <Button component={Link} variant="default" size="xs" leftSection={<Icon size={15} />} {...button} />;
}
