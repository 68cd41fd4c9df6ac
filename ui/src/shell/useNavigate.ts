/** Programmatic navigation. */
import { useEffect, useRef } from "react";
import { useLocation } from "wouter";

/**
 * Returns a function that navigates only while the component is mounted, so that a late response cannot take the user
 * away from another page.
 */
export function useNavigate(): (address: string) => void {
  const [, setLocation] = useLocation();
  const isMounted = useRef(true);
  useEffect(() => {
    isMounted.current = true;
    return () => {
      isMounted.current = false;
    };
  }, []);
  return (address) => {
    if (isMounted.current) setLocation(address);
  };
}
