/** Programmatic navigation. */
import { useEffect, useRef } from "react";
import { useLocation } from "wouter";

/** Returns a function that navigates while the component is mounted, so that a late response cannot change the page. */
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
