#include "measure.h"

double steady_rates(int cores, double *const ends_s[], const size_t counts[],
                    const double iteration_b[], struct core_result results[])
{
    double from_s = 0, until_s = 0;
    for (int i = 0; i < cores; i++) {
        if (counts[i] < 3)
            return 0;
        const double first_s = ends_s[i][0], last_s = ends_s[i][counts[i] - 2];
        from_s = i == 0 || first_s > from_s ? first_s : from_s;
        until_s = i == 0 || last_s < until_s ? last_s : until_s;
    }
    for (int i = 0; i < cores; i++) {
        size_t first = 1, last = counts[i] - 2;
        while (first <= last && ends_s[i][first - 1] < from_s)
            first++;
        while (last >= first && ends_s[i][last] > until_s)
            last--;
        if (last < first)
            return 0;
        results[i].iterations = (long)(last - first + 1);
        const double took_s = ends_s[i][last] - ends_s[i][first - 1];
        results[i].rate_b_s = iteration_b[i] * (double)results[i].iterations / took_s;
    }
    return until_s - from_s;
}
